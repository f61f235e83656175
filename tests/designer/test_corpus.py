from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spade_gym.designer.corpus import CorpusError, cut_words, default_corpus, draw_document, open_corpus
from spade_gym.designer.corpus_jsonl import JsonlCorpus


def write_lines(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


def test_the_default_corpus_has_games_and_interfaces() -> None:
    games, tools = default_corpus("multi_turn"), default_corpus("tool_use")
    assert (len(games), len(default_corpus("single_turn")), len(tools)) == (48, 48, 24)
    assert games.document(0, max_words=6_000).title == "Residues and the Chinese Remainder Theorem"
    assert tools.document(23, max_words=4_000).id == "api-024"
    assert games.digest == tools.digest


def test_words_are_cut_and_white_space_stays() -> None:
    assert cut_words("one  two\nthree four", 3) == "one  two\nthree"
    assert cut_words(" one two ", 2) == " one two"
    assert cut_words("one", 5) == "one"
    with pytest.raises(ValueError, match="at least 1, got 0"):
        cut_words("one", 0)


def test_jsonl_reads_text_or_orig_doc(tmp_path: Path) -> None:
    rows = [{"text": "a b c", "id": "x", "title": "T"}, "", {"orig_doc": "d e", "other": [1]}, {"text": "f", "id": 7}]
    corpus = open_corpus(write_lines(tmp_path / "docs.jsonl", rows))
    found = [corpus.document(index, max_words=2) for index in range(len(corpus))]
    assert [(item.id, item.text, item.title) for item in found] == [
        ("x", "a b", "T"), ("docs-2", "d e", ""), ("7", "f", ""),
    ]  # fmt: skip
    with pytest.raises(IndexError, match="has documents 0 to 2, got 3"):
        corpus.document(3, max_words=2)


def test_bad_lines_are_named_by_file_and_line(tmp_path: Path) -> None:
    rows = [{"text": "good"}, "{not json", {"title": "no text"}, {"text": 3}, {"text": "  "}, "[1]", "null", '{"text"']
    path = write_lines(tmp_path / "bad.jsonl", rows)
    with pytest.raises(CorpusError, match=r"bad\.jsonl' holds lines that are no documents") as caught:
        open_corpus(path)
    message = str(caught.value)
    assert [f"line {number}:" in message for number in range(1, 9)] == [
        False,
        True,
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    assert "and 2 more" in message
    assert "'text' (or 'orig_doc') must be a text that is not blank" in message


def test_lone_surrogates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="line 1"):
        open_corpus(write_lines(tmp_path / "odd.jsonl", ['{"text": "\\ud800"}']))


def test_few_places_are_remembered_and_every_document_is_found(tmp_path: Path) -> None:
    rows = [{"text": f"text {number}", "field": "ab"[number % 2]} for number in range(101)]
    path = write_lines(tmp_path / "many.jsonl", rows)
    corpus = JsonlCorpus(path, max_places=8)
    assert [corpus.document(index, max_words=9).text for index in range(101)] == [row["text"] for row in rows]
    odd = JsonlCorpus(path, fields=("b",), max_places=4)
    assert [odd.document(index, max_words=9).text for index in range(50)] == [f"text {2 * i + 1}" for i in range(50)]
    assert len(corpus._places._offsets) <= 8
    with pytest.raises(CorpusError, match="no document of the fields c"):
        JsonlCorpus(path, fields=("c",))


def test_a_file_that_changes_is_noticed(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "docs.jsonl", [{"text": "a"}, {"text": "b"}])
    corpus = open_corpus(path)
    write_lines(path, [{"text": "longer text"}])
    with pytest.raises(CorpusError, match="was changed since it was opened"):
        corpus.document(0, max_words=5)


def test_a_folder_of_texts(tmp_path: Path) -> None:
    (tmp_path / "docs" / "inner").mkdir(parents=True)
    (tmp_path / "docs" / "b.txt").write_text("second text")
    (tmp_path / "docs" / "inner" / "c.MD").write_text("third")
    (tmp_path / "docs" / "a.md").write_text("first")
    (tmp_path / "docs" / "skipped.pdf").write_text("x")
    (tmp_path / "secret.txt").write_text("outside")
    os.symlink(tmp_path / "secret.txt", tmp_path / "docs" / "link.txt")
    corpus = open_corpus(tmp_path / "docs")
    found = [corpus.document(index, max_words=1) for index in range(len(corpus))]
    assert [(item.id, item.text) for item in found] == [("a.md", "first"), ("b.txt", "second"), ("inner/c.MD", "third")]
    before = corpus.digest
    (tmp_path / "docs" / "b.txt").write_text("changed")
    assert open_corpus(tmp_path / "docs").digest != before
    (tmp_path / "docs" / "b.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(CorpusError, match=r"b\.txt: .*UTF-8"):
        open_corpus(tmp_path / "docs")


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"orig_doc": f"text {number}", "field": "ab"[number % 2], "n": number} for number in range(150)]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "docs.parquet", row_group_size=40)
    corpus = open_corpus(tmp_path / "docs.parquet")
    assert [corpus.document(index, max_words=9).text for index in (0, 39, 40, 149)] == [
        "text 0", "text 39", "text 40", "text 149",
    ]  # fmt: skip
    odd = open_corpus(tmp_path / "docs.parquet", fields=["b"])
    assert (len(odd), odd.document(74, max_words=9).id, odd.document(20, max_words=9).text) == (
        75,
        "docs-75",
        "text 41",
    )
    rows[41]["orig_doc"] = None
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "bad.parquet", row_group_size=40)
    with pytest.raises(CorpusError, match="row 2 of row group 1"):
        open_corpus(tmp_path / "bad.parquet")
    parquet.write_table(arrow.Table.from_pylist([{"n": 1}]), tmp_path / "none.parquet")
    with pytest.raises(CorpusError, match="no column 'text' or 'orig_doc'; its columns are n"):
        open_corpus(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no table")
    with pytest.raises(CorpusError, match="no readable Parquet file"):
        open_corpus(tmp_path / "text.parquet")


def test_what_is_no_corpus_is_refused(tmp_path: Path) -> None:
    (tmp_path / "docs.csv").write_text("a,b")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match=r"a \.jsonl or \.parquet file, or a folder"):
        open_corpus(tmp_path / "docs.csv")
    with pytest.raises(CorpusError, match="holds no document"):
        open_corpus(tmp_path / "empty.jsonl")
    with pytest.raises(CorpusError, match="holds no file that ends in"):
        open_corpus(tmp_path / "empty")
    with pytest.raises(CorpusError, match="cannot be opened"):
        open_corpus(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="have no fields"):
        open_corpus(tmp_path / "empty", fields=["a"])


def test_documents_are_drawn_evenly_and_repeat_with_the_seed() -> None:
    corpus = default_corpus("tool_use")
    drawn = [draw_document(corpus, np.random.default_rng(seed), max_words=10).id for seed in range(300)]
    assert len(set(drawn)) == 24
    assert drawn[7] == draw_document(corpus, np.random.default_rng(7), max_words=10).id


def test_ids_and_titles_hold_no_control_characters(tmp_path: Path) -> None:
    row = {"text": "x", "id": "\x1b[31m\n--- end", "title": "\x1b]0;The\u202e\x00\n tide\x07"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    document = open_corpus(tmp_path / "a.jsonl").document(0, max_words=1)
    assert (document.id, document.title) == ("\\x1b[31m\\n--- end", "]0;The tide")


def test_file_names_that_are_no_utf8_give_ids_that_can_be_stored(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "docs") + b"\xfd"
    os.mkdir(folder)
    for name in (b"a\xfe.txt", b"a\xff.txt"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("text")
    corpus = open_corpus(Path(os.fsdecode(folder)))
    ids = [corpus.document(index, max_words=1).id for index in range(2)]
    assert ids == ["a\\udcfe.txt", "a\\udcff.txt"]
    assert corpus.name == "docs\\udcfd"
