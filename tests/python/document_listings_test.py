"""Every listing of a document runs, or is part of a file of the tree.

Python: the listings of a document are one script, and its ```text blocks are what it prints.
Prototxt: nets that load. C++ and kernels: the block names the file that it is taken from; blank lines
and lines of an ellipsis separate parts.
"""
import os
import re
import subprocess
import sys

import pytest

import caffe
from caffe.proto import caffe_pb2
from documents import DOCUMENTS, ROOT, blocks, read
from google.protobuf import text_format

LISTINGS = {name: blocks(read(name)) for name in DOCUMENTS}
KNOWN = {'python', 'text', 'prototxt', 'c', 'c++', 'sh'}


def having(*languages):
    return [name for name in DOCUMENTS if any(block[0] in languages for block in LISTINGS[name])]


def test_every_listing_has_a_language_that_is_checked():
    for name in DOCUMENTS:
        for language, rest, _ in LISTINGS[name]:
            assert language in KNOWN, '%s: a block of "%s"' % (name, language)
            assert (rest != '') == (language in ('c', 'c++')), '%s: %s %s' % (name, language, rest)


def run(name, folder, replace=None):
    code = '\n'.join(text for language, _, text in LISTINGS[name] if language == 'python')
    script = folder / 'listing.py'
    script.write_text(replace(code) if replace else code)
    environment = dict(os.environ, CAFFE_LOG='warning',
                       PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
    result = subprocess.run([sys.executable, script], cwd=folder, env=environment,
                            capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == ''.join(text for language, _, text in LISTINGS[name]
                                    if language == 'text')


@pytest.mark.parametrize('name', having('python'))
def test_python_listings_print_what_follows_them(name, tmp_path):
    run(name, tmp_path)


@pytest.mark.parametrize('line', ['CAFFE_BFLOAT16', 'CAFFE_DOUBLE', ''])
def test_the_first_net_runs_in_every_type(line, tmp_path):
    def replace(code):
        assert code.count('CAFFE_HALF') == 1
        return re.sub(r'.*data_type = .*CAFFE_HALF\n' if not line else 'CAFFE_HALF', line, code)

    run('README.md', tmp_path, replace)


def test_the_first_net_is_short():
    (code,) = [text for language, _, text in LISTINGS['README.md'] if language == 'python']
    assert len([line for line in code.splitlines() if line]) <= 20


@pytest.mark.parametrize('name', having('prototxt'))
def test_prototxt_listings_load(name, tmp_path, monkeypatch):
    for language, _, code in LISTINGS[name]:
        if language == 'python' and 'caffe.Layer' in code:  # a module of the net
            (tmp_path / (re.search(r'class (\w+)', code).group(1).lower() + '.py')).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    caffe.set_device('cpu')
    for language, _, text in LISTINGS[name]:
        if language == 'prototxt':
            net = caffe.Net(text_format.Parse(text, caffe_pb2.NetParameter()), caffe.TEST)
            net.forward()


@pytest.mark.parametrize('name', having('c', 'c++'))
def test_listings_of_sources_are_parts_of_them(name):
    for language, path, text in LISTINGS[name]:
        if language not in ('c', 'c++'):
            continue
        source = '\n' + read(path)
        for part in re.split(r'\n(?:\n|…\n)+', text.rstrip('\n')):
            assert part.strip()
            assert '\n%s\n' % part in source, '%s: not in %s:\n%s' % (name, path, part)
