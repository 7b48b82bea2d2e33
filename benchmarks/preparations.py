"""Peak memory and time of the Pokec and Reddit preparations at full size.

The raw dumps are generated in their exact formats, in a temporary folder: 1 632 803 profiles
and 30 622 564 friendships; 232 965 posts with 602 numbers each and 114 615 892 directed
links. Every preparation runs in a process of its own, so that its peak memory is its own.

Run: python benchmarks/preparations.py [pokec|reddit] [--share 1.0] [--folder DIR]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from measuring import in_own_process

POKEC = (1_632_803, 30_622_564)
REDDIT = ((153_431, 23_831, 55_703), 57_307_946)


def generate(name: str, folder: Path, share: float) -> tuple[Path, Path]:
    # The generators belong to the tests.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from synthetic_dumps import write_pokec, write_reddit

    folder.mkdir(parents=True)
    if name == "pokec":
        return write_pokec(folder, int(share * POKEC[0]), int(share * POKEC[1]), answer_words=6)
    sizes = [int(share * size) for size in REDDIT[0]]
    return write_reddit(folder, sizes, int(share * REDDIT[1]))


def prepare(name: str, first: Path, second: Path, out: Path) -> None:
    """Runs one preparation; called in a process of its own."""
    from privgcn.data import pokec, reddit

    out.mkdir()
    if name == "pokec":
        pokec.prepare(first, second, out)
    else:
        reddit.prepare(first, second, 0, out)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=["pokec", "reddit"])
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only-prepare", nargs=4, metavar=("NAME", "A", "B", "OUT"))
    options = parser.parse_args()
    if options.only_prepare:
        name, first, second, out = options.only_prepare
        prepare(name, Path(first), Path(second), Path(out))
        return
    from privgcn.data import load_corpus

    for name in options.names:
        with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
            work = Path(temporary)
            start = time.perf_counter()
            raw = generate(name, work / "raw", options.share)
            made = time.perf_counter() - start
            size = sum(path.stat().st_size for path in raw) / 2**30
            command = [__file__, "--only-prepare", name, *map(str, raw), str(work / "out")]
            took, _ = in_own_process(command)
            corpus = load_corpus(work / "out")
            print(
                f"{name}: raw files {size:.2f} GiB (generated in {made:.0f} s) -> "
                f"{len(corpus)} documents, {corpus.edges.shape[1]} links; "
                f"{took['wall']:.1f} s, peak memory {took['gigabytes']:.2f} GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
