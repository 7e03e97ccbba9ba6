"""Written text to spoken words."""

import gzip

import normalize_text
import pytest

from mdi.spoken.english import sentences


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Mr. Smith paid $2.50.", "mister smith paid two dollars and fifty cents"),
        ("It cost £3.5bn, or €1 more.", "it cost three point five billion pounds or one euro more"),
        ("$1,500 in 1984", "one thousand five hundred dollars in nineteen eighty four"),
        ("1500 people at 10:30 and 7:05", "fifteen hundred people at ten thirty and seven oh five"),
        ("the 21st of May, 1990s, the '60s", "the twenty first of may nineteen nineties the sixties"),
        ("45% of U.S. firms", "forty five percent of u s firms"),
        (
            "1,115 yuan; 0800; 3.14",
            "one thousand one hundred and fifteen yuan zero eight zero zero three point one four",
        ),
        ("O'Brien's \"dogs’\" café — naïve", "o'brien's dogs cafe naive"),
        ("rock & roll, bbc.co.uk", "rock and roll bbc co uk"),
        ("line<br />break", "line break"),
    ],
)
def test_numbers_and_signs_become_words(written, spoken):
    assert [" ".join(words) for words in sentences(written, split=False)] == [spoken]


def test_sentences_end_where_they_end():
    text = 'My hon. Friend is right. Is he? "Yes!" she said. Dr. No came at 5 p.m. on Monday.'
    assert [" ".join(words) for words in sentences(text)] == [
        "my honourable friend is right",
        "is he",
        "yes she said",
        "doctor no came at five p m on monday",
    ]


def test_files_and_folders_in_order_and_whatever_the_number_of_processes(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "b.txt").write_text("Second file.\nIt has 2 lines")
    with gzip.open(folder / "a.gz", "wt") as stream:
        stream.write("First file.\n")
    outputs = []
    for nj in ("1", "2"):
        out = tmp_path / f"out{nj}.gz"
        assert normalize_text.main(["--case", "upper", "--nj", nj, str(folder), str(out)]) == 0
        outputs.append(gzip.decompress(out.read_bytes()).decode())
    assert outputs[0] == outputs[1] == "FIRST FILE\nSECOND FILE\nIT HAS TWO LINES\n"


def test_text_without_words_is_refused_and_leaves_nothing(tmp_path, capsys):
    (tmp_path / "in.txt").write_text("...\n")
    assert normalize_text.main([str(tmp_path / "in.txt"), str(tmp_path / "nowhere" / "out.txt")]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert normalize_text.main(["--nj", "1", str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]) == 1
    assert "no words in it" in capsys.readouterr().err
