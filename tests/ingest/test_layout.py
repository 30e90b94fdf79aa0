from provenance.ingest.layout import LaidPage, Line, RawPage, lay_out


def page(number: int, *texts: str) -> RawPage:
    return RawPage(number, tuple(Line(text) for text in texts))


def placed(number: int, *lines: tuple[float, str]) -> RawPage:
    return RawPage(number, tuple(Line(text, 11, False, 72, top) for top, text in lines), height=800)


def headings(laid: LaidPage) -> list[str]:
    return [laid.text[b.start : b.stop] for b in laid.blocks if b.heading]


WRAPPED = (
    "The ferry leaves the quay at seven every morning and it",
    "crosses the Sound in less than an hour when the weather",
    "is kind.",
)


def test_wrapped_lines_become_one_paragraph_and_paragraphs_stay_apart() -> None:
    (laid,) = lay_out([page(1, *WRAPPED, "", *WRAPPED)])
    paragraph = " ".join(WRAPPED)
    assert laid.text == f"{paragraph}\n\n{paragraph}"
    assert [laid.text[b.start : b.stop] for b in laid.blocks] == [paragraph, paragraph]


def test_a_wider_gap_on_the_page_ends_a_paragraph() -> None:
    tops = [100, 114, 128, 150, 164, 178]
    (laid,) = lay_out([placed(1, *zip(tops, WRAPPED[:2] * 3, strict=True))])
    assert laid.text.count("\n\n") == 1


def test_short_lines_that_are_no_wraps_stay_lines() -> None:
    (laid,) = lay_out([page(1, *WRAPPED, "", "Saltby 6.40", "Quern Bay 7.20", "Oskary 8.90")])
    assert laid.text.endswith("Saltby 6.40\nQuern Bay 7.20\nOskary 8.90")


def test_a_header_and_a_page_number_on_every_page_are_dropped() -> None:
    pages = [page(n, "The Annual Report", f"Text number {word} stands alone.", f"Page {n}") for n, word in
             enumerate(("one", "two", "three", "four"), start=1)]  # fmt: skip
    for laid, word in zip(lay_out(pages), ("one", "two", "three", "four"), strict=True):
        assert laid.text == f"Text number {word} stands alone."


def test_a_footer_with_a_moving_page_number_is_dropped_by_its_place() -> None:
    pages = [placed(n, (100, f"Body {word}."), (780, f"Report 2024 | {n + 10}")) for n, word in
             enumerate(("one", "two", "three"), start=1)]  # fmt: skip
    assert [laid.text for laid in lay_out(pages)] == ["Body one.", "Body two.", "Body three."]


def test_a_line_that_repeats_in_the_body_stays() -> None:
    pages = [placed(n, (300, "Not in the margin."), (400, f"Body {n * 7}.")) for n in range(1, 5)]
    assert all("Not in the margin." in laid.text for laid in lay_out(pages))


def test_a_number_that_does_not_move_with_the_pages_stays() -> None:
    pages = [placed(n, (50, f"Total {value}"), (300, "Body.")) for n, value in enumerate((7, 900, 31), start=1)]
    totals = [laid.text.split(" Body")[0] for laid in lay_out(pages)]
    assert [total.split("\n")[0] for total in totals] == ["Total 7", "Total 900", "Total 31"]


def test_a_page_with_nothing_but_a_repeated_line_keeps_it() -> None:
    assert [laid.text for laid in lay_out([page(n, "Same") for n in range(1, 5)])] == ["Same"] * 4


def test_larger_print_and_bold_lines_are_headings() -> None:
    big = Line("Fares", 16, False, 72, 80)
    bold = Line("For children", 11, True, 72, 140)
    body = [Line(text, 11, False, 72, 100 + 14 * i) for i, text in enumerate(WRAPPED)]
    after = [Line(text, 11, False, 72, 160 + 14 * i) for i, text in enumerate(WRAPPED)]
    (laid,) = lay_out([RawPage(1, (big, *body, bold, *after), height=800)])
    assert headings(laid) == ["Fares", "For children"]


def test_a_short_line_between_blank_lines_is_a_heading_of_a_text_file() -> None:
    (laid,) = lay_out([page(1, "Opening hours", "", *WRAPPED)])
    assert headings(laid) == ["Opening hours"]


def test_the_cells_of_a_row_stand_on_one_line_and_are_no_heading() -> None:
    head = [Line(text, 11, True, x, 100) for text, x in (("Ferry", 72), ("Cars", 200))]
    row = [Line(text, 11, False, x, 118) for text, x in (("Lantern", 72), ("12", 200))]
    (laid,) = lay_out([RawPage(1, (*head, *row), height=800)])
    assert laid.text.split() == ["Ferry", "Cars", "Lantern", "12"]
    assert "Lantern 12" in laid.text
    assert headings(laid) == []


def test_what_was_removed_is_counted_per_page() -> None:
    assert [laid.removed for laid in lay_out([page(1, "a\x00b\x01"), page(2, "c")])] == [2, 0]
