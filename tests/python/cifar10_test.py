"""examples/cifar10 on made-up images: a short schedule, in two parts, from pictures and from records."""
import io
import os
import random
import re
import subprocess
import sys
import tarfile

from PIL import Image
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXAMPLE = os.path.join(ROOT, 'examples', 'cifar10')
sys.path.insert(0, EXAMPLE)
import create_cifar10  # noqa: E402


def colour(label, number):
    """Each class has a colour of its own, a little different in each image."""
    return tuple((label * step + number) % 256 for step in (25, 60, 110))


def records(label, count):
    return b''.join(bytes([label]) + b''.join(bytes([value]) * 1024 for value in colour(label, n))
                    for n in range(count))


@pytest.fixture
def binary(tmp_path):
    """A folder with the six binary files: 200 images to train, 100 to test."""
    folder = tmp_path / 'binary'
    folder.mkdir()
    for name in create_cifar10.BATCHES:
        count = 10 if name.startswith('test') else 4
        content = b''.join(records(label, count) for label in range(10))
        rows = [content[i:i + 3073] for i in range(0, len(content), 3073)]
        random.Random(1).shuffle(rows)
        (folder / name).write_bytes(b''.join(rows))
    return folder


def test_pictures_become_records(tmp_path):
    path = tmp_path / 'pictures.tar.xz'
    with tarfile.open(path, 'w:xz') as archive:
        for part, count in (('train', 3), ('test', 1)):
            for label, name in enumerate(create_cifar10.CLASSES):
                for number in range(count):
                    picture = io.BytesIO()
                    Image.new('RGB', (32, 32), colour(label, number)).save(picture, 'PNG')
                    member = tarfile.TarInfo('%s/%s/%04d.png' % (part, name, number))
                    member.size = picture.tell()
                    picture.seek(0)
                    archive.addfile(member, picture)
    out = tmp_path / 'out'
    out.mkdir()
    create_cifar10.unpack(str(path), str(out))
    train = b''.join((out / name).read_bytes() for name in create_cifar10.BATCHES[:5])
    test = (out / 'test_batch.bin').read_bytes()
    assert len(train) == 30 * 3073 and len(test) == 10 * 3073
    got = {train[i:i + 3073] for i in range(0, len(train), 3073)}
    assert got == {records(label, 3)[n * 3073:(n + 1) * 3073]
                   for label in range(10) for n in range(3)}


def test_data_that_is_none_is_said(tmp_path):
    with pytest.raises(SystemExit, match='neither the files data_batch_1.bin'):
        create_cifar10.unpack(str(tmp_path), str(tmp_path))
    (tmp_path / 'text').write_text('hello')
    with pytest.raises(SystemExit, match='neither a folder nor a tar file'):
        create_cifar10.unpack(str(tmp_path / 'text'), str(tmp_path))


def test_the_schedule_runs_in_two_parts(binary, tmp_path):
    run = subprocess.run(
        [sys.executable, os.path.join(EXAMPLE, 'train_quick.py'), '--data', str(binary), '--device',
         'cpu', '--fraction', '0.004', '--output', str(tmp_path / 'out' / 'quick')],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout
    assert re.search(r'20 iterations in .* test accuracy [01]\.\d+; curves in', run.stdout)
    assert (tmp_path / 'out' / 'quick' / 'quick.png').stat().st_size > 5000
    assert (tmp_path / 'out' / 'quick' / 'quick_iter_16.solverstate').exists()
