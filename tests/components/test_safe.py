"""The gate for untrusted text."""

from __future__ import annotations

import re

import pytest
from fixtures import HOSTILE

from components.safe import Safe, cell, chart_text, clean, el, escape, file_name, join, label, markdown_text


def test_plain_text_is_escaped_and_safe_html_passes() -> None:
    inner = el("b", "<i>&\"'")
    assert inner == "<b>&lt;i&gt;&amp;&quot;&#x27;</b>"
    assert el("p", inner, " 1 < 2") == f"<p>{inner} 1 &lt; 2</p>"


def test_text_of_a_hostile_document_cannot_form_a_tag() -> None:
    drawn = el("p", HOSTILE, title=HOSTILE)
    assert re.findall(r"<[^>]+>", drawn.replace(escape(HOSTILE), "")) == ['<p title="">', "</p>"]


def test_an_attribute_value_cannot_close_its_quotes() -> None:
    assert el("span", title='" onclick="alert(1)') == '<span title="&quot; onclick=&quot;alert(1)"></span>'


@pytest.mark.parametrize("name", ["onclick", "src", "srcset", "action", "srcdoc"])
def test_an_attribute_that_could_run_or_load_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="attribute"):
        el("span", **{name: "x"})


@pytest.mark.parametrize("tag", ["script", "img", "style", "iframe", "form", "svg", "input", "object", "base", "meta"])
def test_an_element_that_could_run_or_load_is_refused(tag: str) -> None:
    with pytest.raises(ValueError, match="element"):
        el(tag)


def test_a_link_stays_in_the_app() -> None:
    assert 'href="?turn=1"' in el("a", "x", href="?turn=1")
    for address in ("http://x.test", "javascript:alert(1)", "mailto:a@x.test"):
        with pytest.raises(ValueError, match="stays"):
            el("a", "x", href=address)


def test_a_style_may_not_fetch() -> None:
    with pytest.raises(ValueError, match="fetch"):
        el("p", style="background:url(http://x.test/a.png)")


def test_missing_attributes_are_left_out_and_true_is_bare() -> None:
    assert el("details", open=True, hidden=False, title=None) == "<details open></details>"
    assert el("p", None, "a", 0) == "<p>a0</p>"


def test_a_label_has_no_punctuation_left_for_markdown() -> None:
    drawn = label("![s](http://x.test/?q=1) $900$ :red[x] <b> `c` 3:one #h *b* _i_ ~s~ | \\ a@b.test")
    assert not set(re.sub(r"&#\d+;", "", drawn)) & set("![]()$:<>`#*_~|\\@/")


def test_a_label_reads_as_the_text_it_stands_for() -> None:
    import html

    assert html.unescape(label("Notice (draft) $5 & more_")) == "Notice (draft) $5 & more_"


def test_a_label_breaks_an_address_so_that_it_does_not_become_a_link() -> None:
    import html

    assert "http:" not in html.unescape(label("see http://x.test"))
    assert "www." not in html.unescape(label("see www.x.test"))


def test_a_long_label_is_cut_and_one_line() -> None:
    assert label("a\n b", None) == "a b"
    assert label("x" * 200, 10) == "x" * 9 + "…"


def test_control_characters_go_and_direction_marks_become_visible() -> None:
    assert clean("a\x00b\x1b\x7fc\r\nd") == "abc\nd"
    assert clean("a\u202eb\u2066c") == "a\ufffdb\ufffdc"
    assert clean("a\ud800b") == "a\ufffdb"


def test_a_cell_cannot_begin_a_formula() -> None:
    assert [cell(t)[0] for t in ("=1+1", "+1", "-1", "@x")] == ["'"] * 4
    assert cell("plain") == "plain"


def test_chart_text_keeps_tags_as_text() -> None:
    assert chart_text("<a href='x'>b</a> & $1$") == "&lt;a href='x'&gt;b&lt;/a&gt; &amp; &#36;1&#36;"


def test_copied_markdown_keeps_the_text_and_nothing_else() -> None:
    assert markdown_text("![x](y) <b> $9 [1]") == r"\!\[x\]\(y\) \<b\> \$9 \[1\]"


def test_a_file_name_part_is_plain() -> None:
    assert file_name("../<b>É</b> x.pdf") == "b-e-b-x-pdf"
    assert file_name("…") == "receipt"


def test_joining_escapes_each_part() -> None:
    assert join("<", Safe("<b></b>"), None, 3) == "&lt;<b></b>3"
