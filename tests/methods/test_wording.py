import numpy as np
import pytest

from provenance.methods.wording import content_words, split_sentences, wording_evidence, words


def sentences(text: str) -> list[str]:
    return [text[s.start : s.stop] for s in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rose 3.5 percent. Then it fell.", ["It rose 3.5 percent.", "Then it fell."]),
        ("Dr. J. R. Hale met Mr. Ito. They spoke.", ["Dr. J. R. Hale met Mr. Ito.", "They spoke."]),
        ("Tools (e.g. Kilns) matter. Yes!", ["Tools (e.g. Kilns) matter.", "Yes!"]),
        ('She said "Stop." He did.', ['She said "Stop."', "He did."]),
        ("One is here. [1] Two is there [2]. Three.", ["One is here. [1]", "Two is there [2].", "Three."]),
        ("The U.S. Navy left at 5 p.m. on Monday.", ["The U.S. Navy left at 5 p.m. on Monday."]),
        ("First:\n- glaze\n- fire it\n2. sell", ["First:", "glaze", "fire it", "sell"]),
        ("窯は熱い。土は冷たい。", ["窯は熱い。", "土は冷たい。"]),
        ("no end mark", ["no end mark"]),
        ("  \n ", []),
        ("What? Really?! Yes…", ["What?", "Really?!", "Yes…"]),
    ],
)
def test_text_is_split_where_sentences_end(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_words_ignore_case_plural_possessive_and_thousands_commas() -> None:
    assert words("Bakers' OVENS cost 1,300 for Ada's glass") == ["baker", "oven", "cost", "1300", "for", "ada", "glass"]
    assert "the" not in content_words("The oven")


def test_the_passage_that_is_quoted_has_the_highest_evidence_in_every_column() -> None:
    passages = ["The red kiln was fired on 12 May 1951 by Osei.", "A kiln is a kind of oven.", "Rain fell in June."]
    found = wording_evidence("It was fired on 12 May 1951.", passages, "When was the kiln fired?")
    assert np.all(found[0] >= found[1:].max(axis=0))
    assert found[0, 3] == 1.0
    assert found[1, 3] == 0.0
    assert np.all((found >= 0) & (found <= 1))


def test_a_sentence_without_words_has_no_evidence() -> None:
    assert wording_evidence("…", ["a b c"])[0, :3].tolist() == [0, 0, 0]
