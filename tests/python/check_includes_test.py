import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def faults(root):
    run = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'check_includes.py'),
                          str(root)], stdout=subprocess.PIPE, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0)
    return lines


def write(root, path, *included):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(''.join('#include %s\n' % name for name in included))


def test_the_tree_includes_downward():
    assert faults(ROOT) == []


@pytest.fixture
def tree(tmp_path):
    for path in ('core/error.hpp', 'device/device.hpp', 'memory/blob.hpp', 'net/net.hpp',
                 'layer/layer_traits.hpp', 'layer/layer.hpp'):
        write(tmp_path, 'include/caffe/' + path, '<string>')
    write(tmp_path, 'src/caffe/net/inside.hpp', '"caffe/memory/blob.hpp"')
    write(tmp_path, 'src/caffe/graph/pass.cpp', '"caffe/layer/layer_traits.hpp"', '"caffe.pb.h"')
    write(tmp_path, 'include/caffe/net/net.hpp', '"caffe/layer/layer.hpp"', '"caffe/memory/blob.hpp"')
    write(tmp_path, 'tools/tool.cpp', '"caffe/net/net.hpp"', '"caffe/core/error.hpp"',
          '<CLI/CLI.hpp>')
    write(tmp_path, 'python/bindings/all.cpp', '"caffe/device/device.hpp"',
          '"caffe/layer/layer_traits.hpp"')
    assert faults(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize('path, included, fault', [
    ('include/caffe/core/bad.hpp', '"caffe/device/device.hpp"', 'is not below core'),
    ('src/caffe/memory/bad.cpp', '"caffe/net/net.hpp"', 'is not below memory'),
    ('src/caffe/graph/bad.cpp', '"caffe/layer/layer.hpp"', 'is not below graph'),
    ('include/caffe/net/bad.hpp', '"caffe/net/inside.hpp"', 'is not a public header'),
    ('tools/bad.cpp', '"caffe/net/inside.hpp"', 'is not a public header'),
    ('include/caffe/net/bad.hpp', '"caffe.pb.h"', 'may be included only in src/, tools/, python/'),
    ('src/caffe/net/bad.cpp', '<CL/cl.h>', 'may be included only in src/caffe/device/opencl/, '
                                           'src/caffe/library/clblast/'),
    ('src/caffe/core/bad.cpp', '<gtest/gtest.h>', 'may be included only in tests/'),
    ('src/caffe/layer/bad.cpp', '"../layers/all_layers.inc"',
     'leaves its folder: write the path from caffe/ on'),
])
def test_an_include_that_points_elsewhere_is_found(tree, path, included, fault):
    write(tree, path, included)
    if path.startswith('include/'):
        write(tree, 'tools/reader.cpp', '"%s"' % path[len('include/'):])
    assert faults(tree) == ['%s:1: %s %s' % (path, included.strip('"<>'), fault)]


def test_a_header_that_only_the_library_reads_is_not_public(tree):
    write(tree, 'include/caffe/net/plan.hpp', '<string>')
    write(tree, 'src/caffe/net/plan.cpp', '"caffe/net/plan.hpp"')
    assert faults(tree) == ['include/caffe/net/plan.hpp: no tool and no binding reads it: '
                            'it belongs beside its source']
