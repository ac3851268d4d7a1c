#!/usr/bin/env python3
"""Makes LMDBs and the mean image of CIFAR-10; downloads it if no data are given.

Writes cifar10_train_lmdb, cifar10_test_lmdb and mean.binaryproto beside this script, where
models/cifar10_quick expects them. --data names existing data: a folder or tar file, either with the
binary version (data_batch_1.bin …) or with images in train/<class>/ and test/<class>/.
"""
import argparse
import hashlib
import io
import os
import random
import shutil
import sys
import tarfile
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.append(os.path.join(ROOT, 'examples', 'mnist'))
from create_mnist import default_tools, run_tool  # noqa: E402

ADDRESS = 'https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz'
MD5 = 'c32a1d4ab5d03f1284b67883e8d87530'
BATCHES = ['data_batch_%d.bin' % i for i in range(1, 6)] + ['test_batch.bin']
CLASSES = ('airplane', 'automobile', 'bird', 'cat', 'deer', 'dog', 'frog', 'horse', 'ship', 'truck')


def download(path):
    """Downloads the archive of the binary version to `path`, unless the file exists."""
    if os.path.exists(path):
        return
    try:
        with urllib.request.urlopen(ADDRESS, timeout=60) as answer:
            packed = answer.read()
    except OSError as error:
        raise SystemExit('CIFAR-10 cannot be downloaded; give it with --data\n%s: %s'
                         % (ADDRESS, error))
    if hashlib.md5(packed).hexdigest() != MD5:
        raise SystemExit('%s: wrong checksum' % ADDRESS)
    with open(path + '.part', 'wb') as file:
        file.write(packed)
    os.replace(path + '.part', path)


def files_of(data):
    """(path, bytes) of every file in a folder or tar file."""
    if os.path.isdir(data):
        for folder, _, names in sorted(os.walk(data)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(('.bin', '.jpg', '.jpeg', '.png')):
                    with open(path, 'rb') as file:
                        yield os.path.relpath(path, data), file.read()
        # A folder that contains one archive.
        for name in sorted(os.listdir(data)):
            if name.endswith(('.tar', '.tar.gz', '.tar.xz')):
                yield from files_of(os.path.join(data, name))
        return
    try:
        with tarfile.open(data) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, archive.extractfile(member).read()
    except (OSError, tarfile.TarError) as error:
        raise SystemExit('%s: neither a folder nor a tar file (%s)' % (data, error))


def record(label, picture):
    """CIFAR-10's binary form of a picture: the label, then red, green and blue."""
    from PIL import Image
    image = Image.open(io.BytesIO(picture)).convert('RGB')
    if image.size != (32, 32):
        raise SystemExit('CIFAR-10 has images of 32x32, this one is %dx%d' % image.size)
    return bytes([label]) + b''.join(channel.tobytes() for channel in image.split())


def unpack(data, folder):
    """Writes the six binary files into a folder."""
    pictures = {'train': [], 'test': []}
    found = set()
    for path, content in files_of(data):
        parts = path.replace(os.sep, '/').split('/')
        if parts[-1] in BATCHES:
            found.add(parts[-1])
            with open(os.path.join(folder, parts[-1]), 'wb') as file:
                file.write(content)
        elif len(parts) >= 3 and parts[-3] in pictures and parts[-2] in CLASSES:
            pictures[parts[-3]].append(record(CLASSES.index(parts[-2]), content))
    if found == set(BATCHES):
        return
    if found or not all(pictures.values()):
        raise SystemExit('%s: neither the files %s nor images in train/<class> and test/<class>'
                         % (data, ', '.join(BATCHES)))
    # Training needs mixed classes; the order is always the same.
    for part in pictures.values():
        random.Random(1).shuffle(part)
    each = -(-len(pictures['train']) // 5)
    for i, name in enumerate(BATCHES):
        part = pictures['train'][i * each:(i + 1) * each] if i < 5 else pictures['test']
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(b''.join(part))


def create(data, output, tools=None):
    """Makes the missing files in `output`; returns the paths of train and test LMDB and the mean."""
    tools = tools or default_tools()
    os.makedirs(output, exist_ok=True)
    paths = [os.path.join(output, name)
             for name in ('cifar10_train_lmdb', 'cifar10_test_lmdb', 'mean.binaryproto')]
    if not all(map(os.path.exists, paths)):
        if data is None:
            data = os.path.join(output, 'cifar-10-binary.tar.gz')
            download(data)
        for path in paths[:2]:
            shutil.rmtree(path, ignore_errors=True)
        with tempfile.TemporaryDirectory() as scratch:
            unpack(data, scratch)
            run_tool(tools, 'convert_cifar_data', scratch, output, 'lmdb')
        run_tool(tools, 'compute_image_mean', '-backend=lmdb', paths[0], paths[2])
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', help='folder or tar file (default: download)')
    parser.add_argument('--output', default=HERE, help='folder for the databases')
    parser.add_argument('--tools', help='folder with convert_cifar_data')
    arguments = parser.parse_args()
    print('\n'.join(create(arguments.data, arguments.output, arguments.tools)))


if __name__ == '__main__':
    main()
