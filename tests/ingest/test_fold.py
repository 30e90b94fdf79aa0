import pytest

from provenance.ingest.fold import fold


@pytest.mark.parametrize("text", ["10² m", "1½ cups", "x₁", "①", "™", "a¹⁰"])
def test_a_form_whose_folding_would_change_a_number_is_kept(text: str) -> None:
    assert fold(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("o\ufb03ce", "office"),
        ("２０２４", "2024"),
        ("non\u00a0breaking", "non breaking"),
        ("caf\u0065\u0301", "café"),
        ("𝐛𝐨𝐥𝐝", "bold"),
        ("a\r\nb\rc", "a\nb\nc"),
    ],
)
def test_compatibility_forms_are_folded(text: str, folded: str) -> None:
    assert fold(text) == (folded, 0)


def test_controls_nul_and_lone_surrogates_are_removed_and_counted() -> None:
    assert fold("a\x00b\x07c\ud800d\ufeffe\u202ef\uffffg") == ("abcdefg", 6)


def test_a_squared_unit_keeps_its_exponent() -> None:
    assert fold("5 ㎡")[0] != "5 m2"


def test_signs_are_not_folded_away() -> None:
    assert fold("−5 % – 3")[0] == "−5 % – 3"
