"""docs/adding_a_layer.md is followed step by step: three layers are added to a copy of the tree as it
says, and its commands build and test them. tests/guide/ has the files of these layers, at their paths.

It compiles the library, so that only tools/nightly.sh runs it (CAFFE_NIGHTLY=1).
"""
import os
import re
import shutil
import subprocess

import pytest

from documents import ROOT, blocks, read

pytestmark = [pytest.mark.serial, pytest.mark.skipif(
    not os.environ.get('CAFFE_NIGHTLY'), reason='it compiles the library; set CAFFE_NIGHTLY=1')]

# File -> where a text is inserted, and the text. "A layer y = f(x)": three files and a formula. "A
# layer with files of its own": the message of a layer that has parameters, and the lists.
EDITS = {
    'proto/caffe.proto': [
        ('  optional ClipParameter clip_param', '  optional ChannelGainParameter channel_gain_param = 1998;\n'),
        ('  optional ReductionParameter reduction_param',
         '  optional RationalSigmoidParameter rational_sigmoid_param = 1999;\n'),
        ('message ClipParameter {',
         'message ChannelGainParameter {\n  optional FillerParameter filler = 1;\n}\n\n'),
        ('message ReductionParameter {',
         'message RationalSigmoidParameter {\n  optional float alpha = 1 [default = 1.0];\n}\n\n')],
    'include/caffe/library/element_functions.hpp': [
        ('  ROW(AbsVal, ',
         '  ROW(RationalSigmoid, rational_sigmoid, kCurve, kSame, 1, rational_sigmoid_value(v, a), \\\n'
         '      rational_sigmoid_gradient(d, v, a), \\\n'
         '      std::isinf(v) ? std::copysign(1, v) : v / (a + std::abs(v)), \\\n'
         '      a / ((a + std::abs(v)) * (a + std::abs(v))), "y = x / (alpha + |x|)") \\\n')],
    'kernels/epilogue/functions.h': [
        ('#include "epilogue/relu.h"', '#include "epilogue/rational_sigmoid.h"\n')],
    'tests/layers/pointwise_layer_test.cpp': [
        ('      {"HardSigmoid",\n       "",',
         '      {"RationalSigmoid",\n'
         '       "rational_sigmoid_param { alpha: 0.5 }",\n       -4,\n       4,\n'
         '       {{-0.5, -0.5, 0.5}, {0, 0, 2}, {1.5, 0.75, 0.125}},\n       {0},\n       5e-7},\n')],
    'src/caffe/layers/all_layers.inc': [
        ('CAFFE_LAYER(Concat)', 'CAFFE_LAYER(ChannelGain)\n'),
        ('CAFFE_LAYER(Pooling)', 'CAFFE_LAYER(Pick)\n')],
    'tests/support/layer_samples.cpp': [
        ('      {"Crop", ',
         '      {"ChannelGain", {{""}}},\n'
         '      {"Pick", {{"", {{3, 4}, {3}}, 1, {{1, {2, 0, 3}}}}}},\n')],
    'tools/commands/self_test.cpp': [
        ('  all.push_back({"Accuracy"',
         '  all.push_back({"ChannelGain", kImages, Layer("ChannelGain", "channel_gain_param { filler {"\n'
         '    " type: \'uniform\' min: -1 max: 1 } }")});\n'
         '  all.push_back({"Pick", kRows, Layer("Pick", "", labelled), false, true, false, true});\n')],
    'python/caffe/coord_map.py': [
        ("'BatchNorm'", "'ChannelGain', ")],
    'tests/layers/empty_batch_test.cpp': [
        ('    {"Clip", ', '    {"Pick", {"", {{3}, {}}}},\n')],
}


def insert(path, before, text):
    with open(path, encoding='utf-8') as file:
        content = file.read()
    assert content.count(before) >= 1, '%s has no %r' % (path, before)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(content.replace(before, text + before, 1))


@pytest.fixture(scope='module')
def tree(tmp_path_factory):
    """A copy of the tree with the three layers, built by the guide's command."""
    folder = str(tmp_path_factory.mktemp('guide') / 'cortado')
    names = subprocess.run(['git', 'ls-files', '-z'], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split('\0')
    for name in filter(None, names):
        if os.path.exists(os.path.join(ROOT, name)):
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, name), os.path.join(folder, name))
    shutil.copytree(os.path.join(ROOT, 'tests', 'guide'), folder, dirs_exist_ok=True)
    for path, edits in EDITS.items():
        for before, text in edits:
            insert(os.path.join(folder, path), before, text)
    if os.path.isdir(os.path.join(ROOT, '.venv')):
        os.symlink(os.path.join(ROOT, '.venv'), os.path.join(folder, '.venv'))
    run(folder, commands()[0])
    return folder


def commands():
    """The commands of the guide's last section."""
    section = read('docs/adding_a_layer.md').split('\n## Build and run\n')[1]
    lines = [line[4:] for line in section.splitlines() if line.startswith('    ')]
    assert len(lines) == 6 and 'tools/build.sh release' in lines[0]
    return [re.sub(r' +#.*', '', line) for line in lines]


def run(folder, command):
    result = subprocess.run(['bash', '-c', command], cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors='replace')
    assert result.returncode == 0, '%s\n%s' % (command, result.stdout[-8000:])
    return result.stdout


def test_the_command_lists_the_layers(tree):
    printed = run(tree, 'build/tools/caffe layers')
    for name in ('RationalSigmoid', 'ChannelGain', 'Pick'):
        assert re.search(r'^\W*%s\b' % name, printed, re.M), printed


def passes(tree, command):
    printed = run(tree, command)
    assert re.search(r'\[  PASSED  \] [1-9]', printed), '%s\n%s' % (command, printed[-2000:])


@pytest.mark.parametrize('layer, body', [('ChannelGain', 'channel_gain'), ('Pick', 'pick')])
def test_the_tests_of_a_layer_pass(tree, layer, body):
    own = [command for command in commands() if re.search('FooBar|foo_bar', command)]
    assert len(own) == 3
    for command in own:
        passes(tree, command.replace('FooBar', layer).replace('foo_bar', body))


def test_the_tests_of_all_layers_pass(tree):
    common = [command for command in commands()[1:] if not re.search('FooBar|foo_bar', command)]
    assert len(common) == 2 and 'Pointwise' in common[0] and 'test_layer' in common[1]
    for command in common:
        passes(tree, command)


def test_the_self_test_has_the_layers(tree):
    printed = run(tree, 'build/tools/caffe device_query --self-test -gpu cpu')
    for name in ('RationalSigmoid', 'ChannelGain', 'Pick'):
        assert name in printed
