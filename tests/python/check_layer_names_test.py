import os
import subprocess
import sys

import caffe
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import check_layer_names  # noqa: E402


def faults(root):
    run = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'check_layer_names.py'),
                          str(root)], stdout=subprocess.PIPE, text=True)
    lines = run.stdout.splitlines()
    assert run.returncode == (1 if lines else 0)
    return lines


def test_no_code_asks_for_a_layer_by_its_name():
    assert faults(ROOT) == []


def test_every_registered_type_is_known():
    assert check_layer_names.layer_names(ROOT) == set(caffe.layer_type_list())


@pytest.fixture
def tree(tmp_path):
    files = {
        'src/caffe/layers/foo_layer.cpp': 'registry.Add<FooLayer>("Foo", traits);',
        'src/caffe/layers/pointwise_table.cpp': '{"Sine", "y = sin x", Sine},',
        'include/caffe/library/functions.hpp': 'ROW(Step, file, step(v), "") '
                                               'ROW(Tan, file, tan(v), "y = tan x")',
        'src/caffe/layers/bar_layer.cpp': 'net->Add("Foo", name, {bottom}, {top});',
        'src/caffe/layers/baz_layer.cpp': 'return GroupedForm{"Foo", 2};',
        'src/caffe/io/upgrade.cpp': 'layer.type() == "Foo"',
        'src/caffe/graph/pass.cpp': 'cast.set_type("Foo");  // a "Foo"',
    }
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + '\n')
    assert faults(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize('path, text, name', [
    ('src/caffe/graph/bad.cpp', 'if (layer.type() == "Foo") return;', 'Foo'),
    ('src/caffe/net/bad.cpp', 'static const char* const kinds[] = {"Bar", "Sine"};', 'Sine'),
    ('src/caffe/net/bad.cpp', 'return type == "Tan" || type == "Step";', 'Tan'),
    ('include/caffe/net/bad.hpp', 'return "Foo" != layer.type();', 'Foo'),
    ('tools/commands/bad.cpp', 'name == "Foo"', 'Foo'),
    ('src/caffe/layers/bad_layer.cpp', 'for (const char* type : {"Bar", "Foo"}) {', 'Foo'),
    ('src/caffe/layers/bad_layer.cpp', 'if (layer.type() == "Foo") return;', 'Foo'),
])
def test_a_name_elsewhere_is_found(tree, path, text, name):
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('\n' + text + '\n')
    assert faults(tree) == [
        '%s:2: "%s" is a type of layer; ask LayerTraits or LayerFacts' % (path, name)]
