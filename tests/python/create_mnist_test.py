"""The download and unpacking half of examples/mnist/create_mnist.py, against files on this machine."""
import gzip
import hashlib
import os
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'examples', 'mnist'))
import create_mnist  # noqa: E402


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Two mirrors, the first of which has nothing; gives the folder of the second."""
    folder = tmp_path / 'mirror'
    folder.mkdir()
    packed = gzip.compress(b'an IDX file')
    for name in create_mnist.FILES:
        (folder / (name + '.gz')).write_bytes(packed)
    monkeypatch.setattr(create_mnist, 'MIRRORS', ['file:///nowhere/', folder.as_uri() + '/'])
    monkeypatch.setattr(create_mnist, 'FILES', dict.fromkeys(
        create_mnist.FILES, hashlib.md5(packed).hexdigest()))
    return folder


def test_the_next_mirror_serves_what_the_first_lacks(mirror, tmp_path):
    create_mnist.download(str(tmp_path / 'data'))
    for name in create_mnist.FILES:
        assert (tmp_path / 'data' / name).read_bytes() == b'an IDX file'


def test_a_damaged_download_is_refused(mirror, tmp_path):
    (mirror / 't10k-labels-idx1-ubyte.gz').write_bytes(gzip.compress(b'something else'))
    with pytest.raises(SystemExit, match='give a folder with --data(.|\n)*wrong checksum'):
        create_mnist.download(str(tmp_path / 'data'))
    assert not (tmp_path / 'data' / 't10k-labels-idx1-ubyte').exists()


def test_files_are_found_packed_and_unpacked(mirror, tmp_path):
    plain = create_mnist.idx_file(str(mirror), 'train-labels-idx1-ubyte', str(tmp_path))
    with open(plain, 'rb') as file:
        assert file.read() == b'an IDX file'
    assert create_mnist.idx_file(str(tmp_path), 'train-labels-idx1-ubyte', '') == plain
    with pytest.raises(SystemExit, match='neither nothing nor nothing.gz'):
        create_mnist.idx_file(str(mirror), 'nothing', str(tmp_path))


def test_a_tool_that_is_missing_or_fails_is_said(mirror, tmp_path):
    with pytest.raises(SystemExit, match='convert_mnist_data: No such file.*--tools'):
        create_mnist.create(str(mirror), str(tmp_path / 'out'), str(tmp_path))
    tool = tmp_path / 'convert_mnist_data'
    tool.write_text('#!/bin/sh\nexit 3\n')
    tool.chmod(0o755)
    with pytest.raises(SystemExit, match='ended with status 3'):
        create_mnist.create(str(mirror), str(tmp_path / 'out'), str(tmp_path))
    tool.write_text('#!/bin/sh\nfor last; do :; done\n/bin/mkdir "$last"\n')
    databases = create_mnist.create(str(mirror), str(tmp_path / 'out'), str(tmp_path))
    assert all(os.path.isdir(database) for database in databases)
