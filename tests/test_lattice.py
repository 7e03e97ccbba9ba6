"""Lattices: what Kaldi says of its own, files there and back, and what must be refused."""

import gzip
from dataclasses import replace

import kaldialign
import numpy as np
import pytest
from goldens import HARDENING
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_data import LAT, PENALTIES, WEIGHTS, best_costs, best_words, lattice_of, lattices, table

from mdi.errors import MdiError
from mdi.speech.lattice import Lattice, best_path, depth, n_best, n_frames, oracle
from mdi.speech.lattice_files import archives, lattice_writer, read_lattices


@pytest.mark.parametrize("name", ["lats", "lats.carpa", "lats.gfst"])
def test_best_paths_are_kaldis(name):
    for weight in WEIGHTS:
        for penalty in PENALTIES:
            for utterance, lattice in lattices(name).items():
                key = (name, str(weight), penalty, utterance)
                path, said = best_path(lattice, weight, float(penalty)), best_costs()[key]
                assert path.words.tolist() == best_words()[key]
                assert path.graph == pytest.approx(float(said["lm_cost"]), abs=1e-3)
                assert path.acoustic / weight == pytest.approx(float(said["ac_cost"]), abs=1e-3)
                assert n_frames(lattice) == int(said["frames"])


@pytest.mark.parametrize("name", ["lats", "lats.carpa"])
def test_depth_is_kaldis(name):
    for utterance, (value,) in table(f"depth.{name}.txt").items():
        assert depth(lattices(name)[utterance]) == pytest.approx(float(value), abs=1e-4)


@pytest.mark.parametrize("name", ["lats", "lats.carpa"])
def test_n_best_is_kaldis(name):
    words, graph, acoustic = (table(f"nbest.{name}.{what}") for what in ("int", "lmcost", "accost"))
    for utterance in ("utt000", "utt004", "utt017"):
        paths = n_best(lattices(name)[utterance], 10, 10.0)
        assert len(paths) == 10
        for i, path in enumerate(paths, 1):
            key = f"{utterance}-{i}"
            assert path.words.tolist() == [int(w) for w in words[key]]
            assert path.graph == pytest.approx(float(graph[key][0]), abs=1e-3)
            assert path.acoustic == pytest.approx(float(acoustic[key][0]), abs=1e-3)


def test_oracle_is_kaldis():
    references = table("refs.int")
    for utterance, (errors,) in table("oracle.errors").items():
        assert oracle(lattices("lats")[utterance], np.array(references[utterance], np.int32)) == int(errors)


def small() -> Lattice:
    """Two words and an optional silence: 1 2, 1 3, 4 2, 4 3, each with and without label 0 between."""
    return lattice_of(
        source=[0, 0, 1, 1, 2, 2],
        dest=[1, 1, 2, 3, 3, 3],
        word=[1, 4, 0, 2, 2, 3],
        graph=np.arange(6) * 0.5,
        acoustic=np.ones(6),
        frame=np.zeros(6),
        finals={3: 0.25},
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=6))
def test_oracle_is_the_best_of_all_paths(reference):
    lattice = small()
    paths = n_best(lattice, 100, 1.0)
    assert len(paths) == 6
    least = min(kaldialign.edit_distance(reference, path.words.tolist())["total"] for path in paths)
    assert oracle(lattice, np.array(reference, np.int32)) == least


@pytest.mark.parametrize("text", [True, False])
@pytest.mark.parametrize("suffix", ["ark", "ark.gz"])
def test_files_there_and_back(tmp_path, text, suffix):
    path = str(tmp_path / f"lat.{suffix}")
    with lattice_writer(path, text) as write:
        for lattice in lattices("lats").values():
            write(lattice)
    again = list(read_lattices(path))
    assert [x.utterance for x in again] == list(lattices("lats"))
    for x in again:
        y = lattices("lats")[x.utterance]
        assert np.array_equal(x.begin, y.begin)
        assert np.array_equal(x.arcs.label, y.arcs.label)
        assert np.array_equal(x.dest, y.dest)
        for a, b in ((x.arcs, y.arcs), (x.finals, y.finals)):
            assert np.array_equal(a.graph.astype(np.float32), b.graph.astype(np.float32))
            assert np.array_equal(a.acoustic.astype(np.float32), b.acoustic.astype(np.float32))
            for i in range(len(a.graph)):
                assert np.array_equal(x.frames[a.first[i] : a.stop[i]], y.frames[b.first[i] : b.stop[i]])
        assert n_frames(x) == n_frames(y)


def test_states_in_any_order_and_dead_ends_are_put_right(tmp_path):
    path = tmp_path / "lat.txt"
    # The start is the first line's state, 3; state 4 leads nowhere, state 5 comes from nowhere.
    path.write_text("u \n3\t1\t7\t1,2,8_9\n3\t4\t6\t0,0,8_8\n1\t0\t8\t1,2,9\n0\t0.5,0,\n5\t0\t3\t0,0,1\n\n")
    (lattice,) = read_lattices(str(path))
    assert (lattice.n_states, lattice.n_arcs) == (3, 2)
    found = best_path(lattice, 1.0)
    assert found.words.tolist() == [7, 8]
    assert (found.graph, found.acoustic) == (2.5, 4.0)
    assert n_frames(lattice) == 3


def test_a_plain_lattice_is_read_too(tmp_path):
    path = tmp_path / "lat.txt"
    path.write_text("u \n0\t1\t8\t7\t1,2\n1\t2\t9\t0\t1,2\n2\t3\t9\t0\n3\n\n")
    (lattice,) = read_lattices(str(path))
    found = best_path(lattice, 1.0)
    assert found.words.tolist() == [7]
    assert (found.graph, found.acoustic, n_frames(lattice)) == (2.0, 4.0, 3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("utt1 \n0\t1\tx\t1,2,3\n1\n\n", "utt1: '0\tx\t1,2,3'|utt1: '0\t1\tx"),
        ("utt1 \n\nutt2 \n0\n\n", "utt1 is empty"),
        ("utt1 \n0\t1\t5\t1,2,3\n\n", "utt1 is empty: no path"),
        ("utt1 \n0\t1\t5\t1,2,3\n1\t0\t5\t1,2,3\n1\n\n", "utt1 has a cycle"),
        ("utt1 [ 1 2 3 ]\n", "utt1: '\\[ 1 2 3 \\]'"),
        ("no-lattice-here", "expected an utterance and its lattice"),
    ],
)
def test_bad_lattices_are_errors_with_their_utterance(tmp_path, text, message):
    path = tmp_path / "lat.txt"
    path.write_text(text)
    with pytest.raises(MdiError, match=message):
        list(read_lattices(str(path)))


def test_a_cut_binary_archive_is_an_error(tmp_path):
    path = tmp_path / "lat.1.gz"
    with lattice_writer(str(path)) as write:
        for lattice in lattices("lats.ac").values():
            write(lattice)
    data = gzip.decompress(path.read_bytes())
    whole = list(lattices("lats.ac"))
    for cut in (len(data) - 4, len(data) // 2, len(data) // 3):
        short = tmp_path / "short"
        short.write_bytes(data[:cut])
        read = []
        with pytest.raises(MdiError, match="damaged"):
            read.extend(x.utterance for x in read_lattices(str(short)))
        assert read == whole[: len(read)]


def test_folders_list_their_archives_by_number(tmp_path):
    for n in (10, 2, 1):
        (tmp_path / f"lat.{n}.gz").write_bytes(b"")
    assert [p.rsplit("/", 1)[1] for p in archives(str(tmp_path))] == ["lat.1.gz", "lat.2.gz", "lat.10.gz"]
    with pytest.raises(MdiError, match=r"no lat\.1\.gz"):
        archives(str(LAT))


def test_an_arc_out_of_range_is_refused():
    from mdi.speech.lattice import tidy

    lattice = small()
    with pytest.raises(MdiError, match="leads to"):
        tidy(replace(lattice, arcs=lattice.arcs._replace(dest=lattice.dest + 1)))


@pytest.mark.parametrize("name", ["t_biglabel2", "b_neglabel", "b_negstates", "b_nonutf", "t_only", "t_dotstate"])
def test_damaged_lattices_are_refused(name):
    with pytest.raises(MdiError):
        list(read_lattices(str(HARDENING / name)))


@pytest.mark.parametrize(
    "line",
    [
        "0 1 4294967301 1,1,1",
        "0 1 -1 1,1,1",
        "0 1 1 nan,1,1",
        "0 1 1 1,1,99999999999",
        "0 1 1 1,1,1_-2",
        "0 1e0 1 1,1,",
    ],
)
def test_bad_lines_of_lattices(line, tmp_path):
    (tmp_path / "lat").write_text(f"u \n{line}\n1 0,0,\n\n")
    with pytest.raises(MdiError, match="expected 'from to word"):
        list(read_lattices(str(tmp_path / "lat")))


def test_a_plain_lattice_has_frames_only_where_it_reads_them(tmp_path):
    """What a decoder hands over; there was room for more frames, with anything in it."""
    import struct

    from mdi.fst.openfst import Header

    arcs = b"".join(struct.pack("<iiffi", 0, 1, 1.0, 2.0, 1) for _ in range(1000))
    body = struct.pack("<ffq", np.inf, np.inf, 1000) + arcs + struct.pack("<ffq", 0.0, 0.0, 0)
    data = Header("lattice4", 0, 2, 1000).to_bytes() + body
    np.full(4000, -1, np.int32)  # memory that is handed out again
    (tmp_path / "lat").write_bytes(b"u " + data)
    (lattice,) = read_lattices(str(tmp_path / "lat"))
    assert (lattice.n_arcs, len(lattice.frames)) == (1000, 0)


def test_numbers_of_states_cost_no_memory(tmp_path):
    (tmp_path / "lat").write_text("u \n7 2000000000 1 1,1,1\n2000000000 0,0,\n\n")
    (lattice,) = read_lattices(str(tmp_path / "lat"))
    assert (lattice.n_states, lattice.n_arcs) == (2, 1)


def test_a_pipe_in_a_folder_of_lattices(tmp_path):
    import os

    from mdi.speech.lattice_files import archives

    os.mkfifo(tmp_path / "lat.1.gz")
    with pytest.raises(MdiError, match="is a pipe"):
        archives(str(tmp_path))
