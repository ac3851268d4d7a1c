"""README.md says what is: its first net runs, its tables name what the sources have."""
import json
import os
import re
import subprocess
import sys

import pytest

import caffe

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ('src', 'include', 'python', 'tools', 'examples', 'tests', '.ci')
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
FLOATS = {'float', 'half', 'bfloat16', 'double'}


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


README = read('README.md')


def section(title):
    return re.search(r'^## %s\n(.*?)(?=^## |\Z)' % re.escape(title), README, re.M | re.S).group(1)


def rows(text, first_word):
    """The cells of the table whose head begins with `first_word`."""
    table = re.search(r'^\| %s \|.*\n\|[-|]+\|\n((?:\|.*\|\n)+)' % first_word, text, re.M).group(1)
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in table.splitlines()]


def code_words(text):
    return re.findall(r'`([^`]+)`', text)


def sources(*endings, folders=FOLDERS):
    for folder in folders:
        for path, inner, files in os.walk(os.path.join(ROOT, folder)):
            inner[:] = [name for name in inner if name not in ('__pycache__', 'results')]
            for name in files:
                full = os.path.join(path, name)
                if full.endswith(endings) and full != os.path.abspath(__file__) and (
                        not name.endswith('_pb2.py')):
                    yield read(full)


def variables_of_sources():
    names = set()
    for text in sources('.cpp', '.hpp'):
        names.update(re.findall(r'(?:getenv|\bEnvironment)\("([A-Z_]+)"\)', text))
        for part in re.findall(r'for \(const char\* name\s*:\s*\{([^}]*)\}\)', text):
            names.update(re.findall(r'"([A-Z]+_\w+)"', part))
    for text in sources('.py'):
        names.update(re.findall(r'environ(?:\.get\(|\.setdefault\(|\[)\'([A-Z_]+)\'', text))
    for text in sources('.sh', '.ci/run'):
        names.update(re.findall(r'\$\{([A-Z_]+):?[-?]', text))
    return names


def layers():
    output = subprocess.run([TOOL, 'layers', '--json'], check=True, capture_output=True).stdout
    return {layer['name']: layer for layer in json.loads(output)}


needs_tool = pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')


@pytest.mark.parametrize('line', ['CAFFE_HALF', 'CAFFE_BFLOAT16', 'CAFFE_DOUBLE', 'CAFFE_FLOAT', ''])
def test_the_first_net_prints_what_it_says(line, tmp_path):
    code, output = re.search(r'```python\n(.*?)```.*?```text\n(.*?)```', section('A first net'),
                             re.S).groups()
    assert len([line for line in code.splitlines() if line]) <= 20
    script = tmp_path / 'first_net.py'
    kept = [text.replace('CAFFE_HALF', line) for text in code.splitlines(True)
            if line or 'data_type' not in text]
    assert len(kept) == len(code.splitlines()) - (not line)
    script.write_text(''.join(kept))
    environment = dict(os.environ, CAFFE_LOG='warning',
                       PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
    result = subprocess.run([sys.executable, script], env=environment, capture_output=True,
                            text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == output


def test_environment_variables_are_those_that_sources_read():
    listed = [name for row in rows(section('Environment variables'), 'variable')
              for name in code_words(row[0])]
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(variables_of_sources())


def test_values_of_variables_are_those_that_sources_know():
    meanings = {row[0].strip('`'): row[2] for row in rows(section('Environment variables'),
                                                          'variable')}
    logging = ''.join(sources('.cpp', folders=('src', 'tools')))
    topics = set(re.findall(r'log::Topic\("(\w+)"\)', logging))
    assert set(code_words(meanings['CAFFE_DEBUG'])) == topics
    table = re.search(r'kLibraries\{(.*?)\}', read('src/caffe/library/multiplexer.cpp'), re.S)
    operations, libraries = code_words(meanings['CAFFE_LIBRARY'])
    assert set(libraries.split()) == set(re.findall(r'"(\w+)"', table.group(1)))
    assert operations == 'gemm=…,conv=…'
    levels = re.search(r'kLevels\[\] = \{(.*?)\};', read('src/caffe/core/log.cpp'), re.S).group(1)
    known = {name for name in re.findall(r'\{"(\w+)", Level::', levels)} - {'1', '2'}
    assert set(code_words(meanings['CAFFE_LOG'])) == known


def test_cmake_options_are_those_of_cmake():
    listed = re.search(r'^CMake options: (.*?)\n\n', README, re.M | re.S).group(1)
    known = re.findall(r'^(?:option\(|set\()(CAFFE_\w+) (?:"|.*CACHE)', read('CMakeLists.txt'),
                       re.M)
    assert sorted(re.findall(r'CAFFE_\w+', listed)) == sorted(known)


@needs_tool
def test_the_table_of_layers_is_that_of_the_command():
    known = layers()
    (every, *rest), *named = rows(section('Types'), 'layers')
    assert not code_words(every)
    said = dict.fromkeys(known, rest)
    for names, *rest in named:
        for name in code_words(names):
            if name.startswith('test_'):
                assert re.search(r'^def %s\(' % name, python, re.M), name
                continue
            assert name in known and said[name] is not rest, name
            said[name] = rest
    for name, (types, floats, quantized) in said.items():
        layer = known[name]
        sets = {'float kinds': FLOATS, 'all': FLOATS | {'quant8', 'quant16'},
                'any to any': {'any', 'to'}}
        assert set(layer['types'].split()) == sets[types], name
        assert (quantized == 'no') == (types == 'float kinds'), name
        assert layer['source'] == (floats == 'sources'), name
        assert layer['backward'] == (floats not in ('forward', 'sources')), name


def test_the_table_of_types_is_that_of_blobs(tmp_path):
    said = {}
    for name, _, _, view, message in rows(section('Types'), 'type'):
        said[name.strip('`')] = message
        path = tmp_path / 'net.prototxt'
        path.write_text('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } '
                        'compute_data_type: %s top_data_type: %s }' % ((message.strip('`'),) * 2))
        blob = caffe.Net(str(path), caffe.TEST).blobs['x']
        assert blob.data.dtype.name == view.split()[0], name
        assert blob.data_type == getattr(caffe.data_type, message.strip('`')), name
    assert set(said) == FLOATS | {'quant8', 'quant16'}


@needs_tool
def test_tests_of_the_table_of_faults_exist():
    text = '\n'.join(sources('_test.cpp', folders=('tests',)))
    suite = None
    python = '\n'.join(sources('_test.py', folders=('tests',)))
    for what, _, names in rows(section('When something breaks'), 'what'):
        for name in code_words(names):
            if name.startswith('test_'):
                assert re.search(r'^def %s\(' % name, python, re.M), name
                continue
            # An ellipsis stands for the suite of the test before it.
            start, test = name.rsplit('.', 1) if '.' in name else ('', name.lstrip('…'))
            suite = suite if start in ('', '…') else start
            assert re.search(r'TEST(_F|_P)?\(%s, \w*%s\)' % (suite, test), text), name


@needs_tool
def test_the_commands_are_those_of_the_help():
    def help_of(*command):
        return subprocess.run([TOOL, 'help', *command], check=True, capture_output=True,
                              text=True).stdout

    text = help_of()
    known = re.findall(r'^  (\w+)  ', text.split('Flags', 1)[0], re.M)
    block = section('The command line').strip('\n').split('\n\n')[0]
    said = re.findall(r'^    caffe (\w+)', block, re.M)
    assert sorted(said) == sorted(known)
    text += ''.join(help_of(command) for command in known)
    found = re.findall(r'(?<![\w-])--?([a-z][\w-]+)', section('The command line'))
    flags = {flag.replace('-', '_') for flag in found}
    own = {'name', 'flag', 'noflag', 'flagfile', 'max_size', 'all', 'output'}
    assert flags - own <= set(re.findall(r'^  -(\w+)', text, re.M))
    assert 'max-size' in text


@needs_tool
def test_the_data_tools_have_the_flags_that_are_listed():
    blocks = re.findall(r'^    (\w+ .*(?:\n     .*)*)', section('Databases'), re.M)
    folder = os.path.dirname(TOOL)
    assert sorted(block.split()[0] for block in blocks) == sorted(
        name for name in os.listdir(folder) if name.startswith(('convert_', 'compute_')))
    for block in blocks:
        text = subprocess.run([os.path.join(folder, block.split()[0]), '--help'], check=True,
                              capture_output=True, text=True).stdout
        known = set(re.findall(r'\[--(\w+)', text)) - {'backend'}
        assert set(re.findall(r'-(\w+)', block)) == known


@pytest.mark.parametrize('name', ['README.md', 'examples/README.md', 'models/README.md',
                                  'python/README.md', 'tests/README.md', 'kernels/README.md',
                                  'src/caffe/library/README.md', 'tools/benchmark/README.md'])
def test_what_a_readme_points_to_is_there(name):
    text = read(name)
    folder = os.path.join(ROOT, os.path.dirname(name))
    for link in re.findall(r'\]\(([^)#]+)\)', text):
        assert '://' in link or os.path.exists(os.path.join(folder, link)), link
    top = 'src|include|kernels|tests|tools|examples|models|python|proto|cmake'
    for path in re.findall(r'`((?:%s)/[\w./-]*)`' % top, text):
        if not re.search(r'/foo(_bar)?\b', path):  # what a reader writes
            assert os.path.exists(os.path.join(ROOT, path)) or os.path.exists(
                os.path.join(folder, path)), path


@pytest.mark.parametrize('data_type, tolerance', [('float', 1e-2), ('half', 3e-2),
                                                  ('bfloat16', 2e-1), ('double', 1e-2)])
def test_the_layer_in_python_is_right(data_type, tolerance, tmp_path, monkeypatch):
    import numpy as np
    code = re.search(r'```python\n(import caffe.*?)```', read('python', 'README.md'), re.S).group(1)
    text = re.search(r'`(layer \{ name: "swish".*?)`', read('python', 'README.md'), re.S).group(1)
    name = 'swish_' + data_type
    (tmp_path / (name + '.py')).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    prototxt = tmp_path / 'net.prototxt'
    prototxt.write_text('force_backward: true data_type: %s layer { name: "x" type: "Input" top: "x" '
                        'input_param { shape { dim: 3 dim: 5 } } } %s'
                        % ('CAFFE_' + data_type.upper(), text.replace('"swish"', '"%s"' % name)))
    caffe.set_device('cpu')
    net = caffe.Net(str(prototxt), caffe.TRAIN)
    x = np.linspace(-3, 3, 15).reshape(3, 5)

    def swish(x):
        return x / (1 + np.exp(-1.5 * x))

    np.testing.assert_allclose(net.forward(x=x)['y'].astype(float), swish(x), atol=tolerance)
    diff = net.backward(y=np.full((3, 5), 2))['x'].astype(float)
    step = 1e-4
    np.testing.assert_allclose(diff, (swish(x + step) - swish(x - step)) / step, atol=2 * tolerance)
