"""Times `rocwheel kernels` on wheels and libraries, beside one read of the same bytes.

The floor is one read of the file, and, of a wheel, one inflation of what it holds, by Python's zlib
on one core. "written" is what the run leaves in the folder for temporary files at any moment, the
largest of the sizes that a look every 20 ms sees.
"""

import sys
import time
import zipfile
from pathlib import Path

from measuring import MEGABYTE, Benchmark, Disk, Measured, options

PIECE = 1 << 20


def floor(path: Path) -> tuple[float, int]:
    """Seconds to read all of a file, unpacked if it is a wheel, and the bytes that were read."""
    begin, total = time.monotonic(), 0
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                with wheel.open(name) as member:
                    while piece := member.read(PIECE):
                        total += len(piece)
    else:
        with open(path, "rb", buffering=0) as file:
            while piece := file.read(PIECE):
                total += len(piece)
    return time.monotonic() - begin, total


class Kernels(Benchmark):
    columns = {"file MB": ".2f", "read MB": ".2f", "floor s": ".2f", "written MB": ".2f", "x floor": ".2f"}

    def run(self) -> None:
        self.head()
        for path in self.settings.files:
            if not path.is_file():
                sys.exit(f"error: {path} is not a file")
            least, total = floor(path)
            written = [0]
            figures = self.repeat(self.watched, path, written, empty=self.work)
            sizes = (path.stat().st_size / MEGABYTE, total / MEGABYTE)
            more = {"size": path.stat().st_size, "read": total, "floor": least, "written": max(written)}
            self.show(path.name, figures, *sizes, least, max(written) / MEGABYTE, figures.wall / least, **more)

    def watched(self, path: Path, written: list[int]) -> Measured:
        """A run, and the most bytes that were in its folder for temporary files."""
        self.work.mkdir()
        disk = Disk(self.work, every=0.02)
        disk.start()
        figures = self.rocwheel("kernels", "--json", path, env={**self.environment, "TMPDIR": str(self.work)})
        written.append(disk.stop())
        return figures


if __name__ == "__main__":
    parser = options(__doc__, runs=3)
    parser.add_argument("files", nargs="+", type=Path, help="wheels and libraries with GPU code")
    Kernels(parser.parse_args()).start()
