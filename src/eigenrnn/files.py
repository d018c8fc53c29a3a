"""Writing of files that replace earlier ones."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield where to write a file, which replaces `path` once the block has ended.

    After an error, such as that of a full disk, the earlier file is unchanged. So is a file to
    which `path` is a link. Other files that the block writes beside the new one move with it.

    Raises:
        OSError: If the block raises one; it names `path`.
    """
    prefix = f".{path.name}."
    try:
        # a folder of one's own: nobody can put a link where the file will be
        with TemporaryDirectory(dir=path.parent, prefix=prefix) as folder:
            yield Path(folder, path.name)
            for file in Path(folder).iterdir():
                file.replace(path.with_name(file.name))
    except OSError as error:
        # a failed write names no file, or the one that nobody knows
        unknown = str(path.parent / prefix)
        if not str(error.filename or unknown).startswith(unknown):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
