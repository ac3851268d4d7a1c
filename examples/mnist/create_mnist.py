#!/usr/bin/env python3
"""Makes LMDBs of MNIST from its IDX files; downloads them if no folder is given.

Writes mnist_train_lmdb and mnist_test_lmdb beside this script, where models/lenet expects them.
"""
import argparse
import gzip
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MIRRORS = ('https://ossci-datasets.s3.amazonaws.com/mnist/',
           'https://storage.googleapis.com/cvdf-datasets/mnist/')
# MD5 of the .gz files as they were published.
FILES = {'train-images-idx3-ubyte': 'f68b3c2dcbeaaa9fbdd348bbdeb94873',
         'train-labels-idx1-ubyte': 'd53e105ee54ea40749a09fcbcd1e9432',
         't10k-images-idx3-ubyte': '9fb629c4189551a2d022fa330f9573f3',
         't10k-labels-idx1-ubyte': 'ec29112dd5afa0611ce80d1b7f02629c'}


def download(folder):
    """Downloads the four IDX files into a folder, unless they exist."""
    os.makedirs(folder, exist_ok=True)
    for name, checksum in FILES.items():
        path = os.path.join(folder, name)
        if os.path.exists(path):
            continue
        failures = []
        for mirror in MIRRORS:
            address = mirror + name + '.gz'
            try:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    packed = answer.read()
                if hashlib.md5(packed).hexdigest() != checksum:
                    raise OSError('wrong checksum')
                break
            except OSError as error:
                failures.append('%s: %s' % (address, error))
        else:
            raise SystemExit('MNIST cannot be downloaded; give a folder with --data\n'
                             + '\n'.join(failures))
        with open(path + '.part', 'wb') as file:
            file.write(gzip.decompress(packed))
        os.replace(path + '.part', path)
        print('downloaded', path)


def idx_file(folder, name, scratch):
    """The path of an IDX file, unpacked into `scratch` if the folder has it as .gz."""
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    if not os.path.exists(path + '.gz'):
        raise SystemExit('%s: neither %s nor %s.gz is there' % (folder, name, name))
    unpacked = os.path.join(scratch, name)
    with gzip.open(path + '.gz') as source, open(unpacked, 'wb') as target:
        shutil.copyfileobj(source, target)
    return unpacked


def default_tools():
    """The folder of the tools: of the built tree, otherwise of the installed package."""
    built = os.path.join(ROOT, 'build', 'tools')
    package = importlib.util.find_spec('caffe')
    if os.path.isdir(built) or package is None:
        return built
    return os.path.join(os.path.dirname(package.origin), 'bin')


def run_tool(tools, name, *arguments):
    """Runs a tool of this folder; ends the script if it is missing or fails."""
    tool = os.path.join(tools, name)
    try:
        subprocess.run([tool, *arguments], check=True)
    except OSError as error:
        raise SystemExit('%s: %s; build it (tools/build.sh), or give its folder with --tools'
                         % (tool, error.strerror)) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit('%s ended with status %d' % (tool, error.returncode)) from None


def create(data, output, tools):
    """Makes the LMDBs of both sets, unless they exist; returns their paths."""
    databases = [os.path.join(output, 'mnist_%s_lmdb' % part) for part in ('train', 'test')]
    os.makedirs(output, exist_ok=True)
    for database, part in zip(databases, ('train', 't10k')):
        if os.path.exists(os.path.join(database, 'data.mdb')):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            # Written under another name first, so that a folder with the final name is complete.
            partial = database + '.part'
            shutil.rmtree(partial, ignore_errors=True)
            run_tool(tools, 'convert_mnist_data', '--backend=lmdb',
                     idx_file(data, part + '-images-idx3-ubyte', scratch),
                     idx_file(data, part + '-labels-idx1-ubyte', scratch), partial)
            os.replace(partial, database)
        print('made', database)
    return databases


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', help='folder with the IDX files, as they are or as .gz')
    parser.add_argument('--output', default=HERE, help='folder for the LMDBs')
    parser.add_argument('--tools', default=default_tools(),
                        help='folder with convert_mnist_data')
    arguments = parser.parse_args()
    data = arguments.data
    if data is None:
        data = os.path.join(HERE, 'data')
        download(data)
    create(data, arguments.output, arguments.tools)


if __name__ == '__main__':
    sys.exit(main())
