"""examples/imagenet/create_imagenet.py on made-up images, and where it finds the tools."""
import os
import sys
from types import SimpleNamespace

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, 'examples', name) for name in ('mnist', 'imagenet')]
import create_imagenet  # noqa: E402
import create_mnist  # noqa: E402


def test_without_a_built_tree_the_tools_are_those_of_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(create_mnist, 'ROOT', str(tmp_path))
    monkeypatch.setattr(create_mnist.importlib.util, 'find_spec', lambda name: SimpleNamespace(
        origin='/site-packages/%s/__init__.py' % name))
    assert create_mnist.default_tools() == '/site-packages/caffe/bin'
    (tmp_path / 'build' / 'tools').mkdir(parents=True)
    assert create_mnist.default_tools() == str(tmp_path / 'build' / 'tools')


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs the script with lists of one image each."""
    from PIL import Image
    Image.new('RGB', (6, 4), (10, 20, 30)).save(tmp_path / 'a b.png')
    (tmp_path / 'list.txt').write_text('a b.png 3\n')

    def run(*more):
        monkeypatch.setattr(sys, 'argv', [
            'create_imagenet.py', '--train', str(tmp_path / 'list.txt'),
            '--train_root', str(tmp_path), '--val', str(tmp_path / 'list.txt'),
            '--val_root', str(tmp_path), '--size', '8', '--output', str(tmp_path / 'out'), *more])
        create_imagenet.main()

    return run


def test_databases_and_mean_are_made(call, tmp_path):
    call()
    from caffe.proto import caffe_pb2
    mean = caffe_pb2.BlobProto.FromString(
        (tmp_path / 'out' / 'imagenet_mean.binaryproto').read_bytes())
    assert list(mean.data) == [30] * 64 + [20] * 64 + [10] * 64
    for part in ('train', 'val'):
        assert (tmp_path / 'out' / ('ilsvrc12_%s_lmdb' % part) / 'data.mdb').exists()


def test_a_tool_that_is_missing_is_said(call, tmp_path):
    with pytest.raises(SystemExit, match='convert_imageset: No such file.*--tools'):
        call('--tools', str(tmp_path))
