"""Generates taskmaster/v1 from the .proto files, as `pnpm run proto` does for TypeScript. Needs grpcio-tools.

    python generate.py          writes the stubs
    python generate.py --check  ends with 1 if those that are there are out of date
"""

import filecmp
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

here = Path(__file__).resolve().parent
protos = here.parent.parent / "packages" / "proto"
stubs = here / "taskmaster" / "v1"
# What the service needs. Peers, backups and access are not for clients.
names = ["bulk", "events", "inspection", "overview", "queues", "schedules", "service", "stream", "tasks", "topics", "waits"]


def generate(out: Path) -> None:
    files = [f"taskmaster/v1/{name}.proto" for name in names]
    # The client makes its calls from the descriptor of the service, so it needs no stubs of gRPC.
    if protoc.main(["protoc", f"-I{protos}", f"--python_out={out}", f"--pyi_out={out}", *files]) != 0:
        raise SystemExit("protoc failed")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = Path(folder) / "taskmaster" / "v1"
        made = sorted(path.name for path in fresh.iterdir())
        if "--check" in sys.argv:
            there = sorted(path.name for path in stubs.glob("*_pb2*"))
            _, differ, missing = filecmp.cmpfiles(fresh, stubs, made, shallow=False)
            if differ or missing or there != made:
                raise SystemExit("the stubs are out of date: run `python clients/python/generate.py` and commit the result")
            return
        stubs.mkdir(exist_ok=True)
        for old in stubs.glob("*_pb2*"):
            old.unlink()
        for name in made:
            (stubs / name).write_bytes((fresh / name).read_bytes())
        (stubs / "__init__.py").touch()


main()
