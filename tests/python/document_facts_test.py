"""README.md and docs/ say what is: their tables name what the sources have."""
import functools
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

import pytest
from PIL import Image
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2
from documents import DOCUMENTS, ROOT, blocks, code_words, read, rows, section, without_blocks

sys.path.insert(0, os.path.join(ROOT, 'tools'))

import check_layer_names  # noqa: E402

FOLDERS = ('src', 'include', 'python', 'tools', 'examples', 'tests', '.ci')
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
FLOATS = {'float', 'half', 'bfloat16', 'double'}


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
        names.update(re.findall(
            r'(?:getenv|\bEnvironment|\bNumberOfEnvironment|\bLimit)\("([A-Z_]+)"[,)]', text))
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


def test_environment_variables_are_those_that_sources_read():
    own = section(read('docs/environment.md'), 'Variables of Cortado')
    listed = [name for row in rows(own, 'variable') for name in code_words(row[0])]
    assert len(listed) == len(set(listed))
    assert sorted(listed) == sorted(variables_of_sources())


def test_values_of_variables_are_those_that_sources_know():
    own = section(read('docs/environment.md'), 'Variables of Cortado')
    meanings = {row[0].strip('`'): row[2] for row in rows(own, 'variable')}
    logging = ''.join(sources('.cpp', folders=('src', 'tools')))
    topics = set(re.findall(r'log::Topic\("(\w+)"\)', logging))
    assert set(code_words(meanings['CAFFE_DEBUG'])) == topics
    operations, libraries, measured = code_words(meanings['CAFFE_LIBRARY'])
    rows_of_tables = ''.join(sources('.cpp', folders=('src/caffe/library',)))
    known = re.findall(r'Library \w+Library\(.*?\) \{\s*return \{"(\w+)"', rows_of_tables)
    for two in re.findall(r'return \{\w+ \? "(\w+)" : "(\w+)",\s*&\w+,\s*\[\]',
                          rows_of_tables):
        known += two
    known += re.findall(r'HostConvolutionLibrary\("(\w+)"', rows_of_tables)
    known += re.findall(r'Library \w+\(\) \{\n  \w+ row\{\s*"(\w+)"', rows_of_tables)
    known += re.findall(r'Library \w+\([^)]*\) \{\n  \w+ row;\n  row\.name = "(\w+)"',
                        rows_of_tables)
    assert set(libraries.split()) == set(known)
    known = re.findall(r'Operation\(const \w+&\) \{ return "(\w+)"; \}', rows_of_tables)
    assert operations == ','.join(name + '=…' for name in known)
    assert measured == 'conv=' + re.search(r'kMeasured\[\] = "(\w+)"', rows_of_tables).group(1)
    levels = re.search(r'kLevels\[\] = \{(.*?)\};', read('src/caffe/core/log.cpp'), re.S).group(1)
    known = {name for name in re.findall(r'\{"(\w+)", Level::', levels)} - {'1', '2'}
    assert set(code_words(meanings['CAFFE_LOG'])) == known


def test_cmake_options_are_those_of_cmake():
    listed = {row[0].strip('`'): row[1] for row in rows(read('docs/environment.md'), 'option')}
    text = read('CMakeLists.txt')
    known = dict(re.findall(r'^option\((CAFFE_\w+) "[^"]*" (ON|OFF)\)', text, re.M))
    known.update(dict(re.findall(r'^set\((CAFFE_\w+) "(.*?)" CACHE', text, re.M)))
    assert {name: '' if value == 'empty' else value.strip('`')
            for name, value in listed.items()} == known


@needs_tool
def test_the_table_of_layers_is_that_of_the_command():
    known = layers()
    table = section(read('docs/types.md'), 'What each layer supports')
    (every, *rest), *named = rows(table, 'layers')
    assert not code_words(every)
    said = dict.fromkeys(known, rest)
    functions = [name for name in check_layer_names.element_wise(ROOT) if known[name]['backward']]
    for names, *rest in named:
        words = code_words(names)
        if 'y = f(x)' in words:
            words.remove('y = f(x)')
            words += functions
        for name in words:
            assert name in known and said[name] is not rest, name
            said[name] = rest
    for name, (types, floats, quantized) in said.items():
        layer = known[name]
        sets = {'float kinds': FLOATS, 'float kinds, `quant8`': FLOATS | {'quant8'}, 'all': FLOATS | {'quant8', 'quant16'},
                'any to any': {'any', 'to'}}
        assert set(layer['types'].split()) == sets[types], name
        assert (quantized == 'no') == (types == 'float kinds'), name
        assert layer['source'] == (floats == 'sources'), name
        assert layer['backward'] == (floats not in ('forward', 'sources')), name


def test_the_table_of_types_is_that_of_blobs(tmp_path):
    said = {}
    for name, _, _, view, message in rows(read('docs/types.md'), 'type'):
        said[name.strip('`')] = message
        path = tmp_path / 'net.prototxt'
        path.write_text('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 } } '
                        'compute_data_type: %s top_data_type: %s }' % ((message.strip('`'),) * 2))
        blob = caffe.Net(str(path), caffe.TEST).blobs['x']
        assert blob.data.dtype.name == view.split()[0], name
        assert blob.data_type == getattr(caffe.data_type, message.strip('`')), name
    assert set(said) == FLOATS | {'quant8', 'quant16'}


def claims():
    """(page, its words, tests) of tests/claims.txt."""
    found = []
    for line in read('tests/claims.txt').splitlines():
        if line.startswith('    '):
            found[-1][2].append(line.strip())
        elif line and not line.startswith('#'):
            found.append((*line.split(': ', 1), []))
    return found


def test_claims_are_words_of_their_pages_and_have_tests():
    text = '\n'.join(sources('_test.cpp', folders=('tests',)))
    python = '\n'.join(sources('_test.py', folders=('tests',)))
    for page, words, tests in claims():
        assert words in ' '.join(read(page).split()), '%s: %s' % (page, words)
        assert tests, words
        for name in tests:
            if name.startswith('test_'):
                assert re.search(r'^def %s\(' % name, python, re.M), name
            else:
                assert re.search(r'TEST(_F|_P)?\(%s,\s*%s\)' % tuple(name.split('.')), text), name


def messages():
    """All string literals of the sources, each joined as the compiler joins it."""
    for text in sources('.cpp', '.hpp', '.py', folders=('src', 'include', 'tools', 'python')):
        text = re.sub(r'(["\'])\s*\n\s*\1', '', text)
        yield from re.findall(r'"((?:[^"\\\n]|\\.)*)"', text)
        yield from re.findall(r"'((?:[^'\\\n]|\\.)*)'", text)


def test_messages_that_the_page_of_faults_quotes_are_those_of_the_sources():
    known = '\n'.join(messages())
    quoted = [words for row in rows(read('docs/faults.md'), 'what you see')
              for words in code_words(row[0]) if re.match(r'[A-Za-z]+ [a-z]+ ', words)]
    assert quoted
    for words in quoted:
        assert words in known, words


def test_every_fault_is_a_claim():
    faults = [row[0] for row in rows(read('docs/faults.md'), 'what you see')]
    assert sorted(faults) == sorted(words for page, words, _ in claims()
                                    if page == 'docs/faults.md')
    for row in rows(read('docs/faults.md'), 'what you see'):
        assert row[2], row


@needs_tool
def test_the_commands_are_those_of_the_help():
    def help_of(*command):
        return subprocess.run([TOOL, 'help', *command], check=True, capture_output=True,
                              text=True).stdout

    text = help_of()
    known = re.findall(r'^  ([\w-]+) +', text.split('Flags', 1)[0], re.M)
    page = read('docs/command_line.md')
    said = re.findall(r'^    caffe ([\w-]+)', section(page, 'The command caffe'), re.M)
    assert sorted(said) == sorted(known)
    text += ''.join(help_of(command) for command in known)
    page = page.replace(section(page, 'Databases'), '')
    found = re.findall(r'(?<![\w-])--?([a-z][\w-]+)', page)
    flags = {flag.replace('-', '_') for flag in found}
    own = {'name', 'flag', 'noflag', 'flagfile', 'max_size', 'all', 'output'}
    assert flags - own <= set(re.findall(r'^  -(\w+)', text, re.M))
    assert 'max-size' in text


@needs_tool
def test_the_data_tools_have_the_flags_that_are_listed():
    blocks = re.findall(r'^    (\w+ .*(?:\n     .*)*)', section(read('docs/command_line.md'), 'Databases'), re.M)
    folder = os.path.dirname(TOOL)
    assert sorted(block.split()[0] for block in blocks) == sorted(
        name for name in os.listdir(folder) if name.startswith(('convert_', 'compute_')))
    for block in blocks:
        text = subprocess.run([os.path.join(folder, block.split()[0]), '--help'], check=True,
                              capture_output=True, text=True).stdout
        known = set(re.findall(r'\[--(\w+)', text)) - {'backend'}
        assert set(re.findall(r'-(\w+)', block)) == known


def shards():
    """Folder of tests -> its ctest entries, in the order in which they run."""
    text = read('tests/CMakeLists.txt')
    with_kernels = re.search(r'name MATCHES "\^\((.*)\)\$"\)\n      continue', text).group(1)
    return {name: ['%s_%d' % (name, i + 1) for i in range(int(count))] +
            [name + '_kernels'] * (name in with_kernels.split('|'))
            for name, count in re.findall(r'set\(shards_of_(\w+) (\d+)\)', text)}


def test_the_table_of_shards_is_that_of_cmake():
    listed = {}
    for folder, entries in rows(section(read('tests/README.md'), 'Shards'), 'folder'):
        known = shards()[folder.strip('`/')]
        first, last = (known.index(code_words(entries)[i]) for i in (0, -1))
        assert (first, last) == (0, len(known) - 1)
        assert len(code_words(entries)) == len(known) or ' to `' in entries
        listed[folder.strip('`/')] = known
    assert listed == shards()


def test_the_table_of_fuzz_targets_is_complete():
    names = [code_words(row[0])[0]
             for row in rows(section(read('tests/README.md'), 'Fuzz targets'), 'target')]
    listed = subprocess.run([os.path.join(ROOT, 'tools', 'fuzz.sh'), '--list'], check=True,
                            capture_output=True, text=True).stdout
    assert sorted(names) == sorted(listed.split())


@functools.lru_cache(None)
def text_of_sources():
    return ''.join(sources('.cpp', '.hpp', '.h', '.inc', '.py', '.pyi', '.proto', '.cmake',
                           folders=FOLDERS + ('kernels', 'proto', 'cmake')))


@functools.lru_cache(None)
def members():
    """Class -> the names in its body, and those behind `Class::` anywhere."""
    found = {}
    head = re.compile(r'^( *)(?:template <.*> *)?(?:class|struct|enum class) (?:\w+::)*(\w+)'
                      r'[^;{}()]*\{\n', re.M)
    for text in sources('.cpp', '.hpp', folders=('src', 'include', 'tests', 'python')):
        text = re.sub(r'//.*', '', text)
        for match in head.finditer(text):
            body = text[match.end():].split('\n%s};' % match.group(1), 1)[0]
            found.setdefault(match.group(2), set()).update(re.findall(r'\w+', body))
        for name, member in re.findall(r'\b(\w+)::(\w+)', text):
            found.setdefault(name, set()).add(member)
    return found


DEVELOPER_PAGES = ['docs/tour.md', 'docs/adding_a_layer.md', 'kernels/README.md', 'tests/README.md',
                   'python/README.md',
                   *(page for page in DOCUMENTS if page.startswith('src/caffe/'))]


@pytest.mark.parametrize('page', DEVELOPER_PAGES)
def test_names_that_developers_read_are_in_the_sources(page):
    """Each name in code: `Net::Forward`, `kOfTop`, `MakeKernel("folder/file", "kernel")`."""
    known = set(re.findall(r'[A-Za-z_]\w+', text_of_sources())).union(*shards().values())
    for code in code_words(without_blocks(read(page))):
        for name in re.findall(r'(?<![\w./-])([A-Za-z_]\w*[A-Za-z0-9])(?![\w./-])', code):
            # FooBar and foo_bar are what a reader writes; kernels have no restrict.
            assert name in known or re.match(r'Foo|foo_bar|restrict$', name), (
                '%s in %s' % (name, code))


def test_members_of_classes_that_documents_name_are_theirs():
    """`Net::Forward` is a function of Net, not of another class."""
    assert 'Forward' in members()['Net'] and 'DoLaunch' not in members()['Device']
    count = 0
    for page in DOCUMENTS:
        for code in code_words(without_blocks(read(page))):
            for name, member in re.findall(r'\b(\w+)::(\w+)', code):
                assert member in members().get(name, ()), '%s::%s in %s' % (name, member, page)
                count += 1
    assert count > 50


def defines(text, name):
    """Whether a source has a function, class, kernel or macro of this name: `Net::Forward`, `gemm`."""
    *classes, last = name.split('::')
    if classes and re.search(r'\b%s\(' % re.escape(name), text):
        return True
    heads = (r'^(?!\s*//).*\b%s\(.*\{', r'^(?!\s*//).*\b%s\([^;{}]*\)[^;{}]*\{', r'\bclass %s\b',
             r'^(?:SPAN_)?KERNEL\(%s,', r'^#define %s\(', r'^function\(%s ', r'#define EPILOGUE.*\b%s\(')
    return any(re.search(head % last, text, re.M) for head in heads) and all(
        re.search(r'\bclass (\w+::)*%s\b' % name, text) for name in classes)


def test_functions_that_documents_link_are_in_the_linked_file():
    """[`Net::Forward`](../src/caffe/net/net.cpp): a reader finds the function in that file."""
    assert defines('void Net::Forward() {', 'Net::Forward')
    assert not defines('  Forward();\n', 'Forward') and not defines('// Forward() {', 'Forward')
    count = 0
    for page in DOCUMENTS:
        for name, path in re.findall(r'\[`([\w:]+)`\]\(([^)#]+\.(?:cpp|hpp|h|cmake|py))\)',
                                     read(page)):
            source = read(os.path.dirname(page), path)
            layer = '/layers/' in path and 'Register%sLayer(' % name in source
            assert layer or defines(source, name), '%s: no %s in %s' % (page, name, path)
            count += 1
    assert count > 50


@pytest.mark.parametrize('page', DOCUMENTS)
def test_source_files_that_documents_name_exist(page):
    """Also without their folder: `net.cpp`, multiplexer.cpp."""
    names = set()
    for folder in FOLDERS + ('kernels', 'cmake'):
        for path, _, files in os.walk(os.path.join(ROOT, folder)):
            names.update(os.path.relpath(os.path.join(path, name), ROOT) for name in files)
    text = re.sub(r'\]\([^)]*\)', ']', without_blocks(read(page)))
    for name in re.findall(r'(?<![\w/.<*-])((?:[\w-]+/)*\w+\.(?:cpp|hpp|h|inc|cmake))\b', text):
        if re.search(r'foo_bar|^folder/file\.h$', name):  # what a reader writes
            continue
        assert any(('/' + known).endswith('/' + name) for known in names), name


@pytest.mark.parametrize('struct, header, first_word', [
    ('LayerTraits', 'include/caffe/layer/layer_traits.hpp', 'trait'),
    ('LayerFacts', 'include/caffe/layer/layer_facts.hpp', 'fact')])
def test_the_tables_of_traits_and_facts_are_complete(struct, header, first_word):
    body = re.search(r'^struct %s \{\n(.*?)^\};' % struct, read(header), re.M | re.S).group(1)
    # Members stand two columns to the right; initial values and comments do not count.
    members = set()
    for line in re.findall(r'^  (?!//|struct|enum| |\})(\w[^\n]*);', body, re.M):
        for part in re.sub(r'<.*>|\(.*\)', '', line).split(','):
            members.add(re.sub(r' =.*', '', part).split()[-1])
    listed = [name for row in rows(read('docs/adding_a_layer.md'), first_word)
              for name in code_words(row[0])]
    assert len(members) > 8
    assert sorted(listed) == sorted(members)


@needs_tool
def test_layers_that_documents_name_are_there_and_missing_ones_are_not():
    known = set(layers())
    differences = read('docs/differences.md')
    missing = [line for line in re.split(r'\n(?=\* )', section(differences, 'What is missing'))
               if line.startswith('* Layers of ')]
    absent = {name for line in missing for name in re.findall(r'`([A-Z]\w*)`', line)}
    assert len(missing) == 3 and absent and not absent & known
    for page in DOCUMENTS:
        text = ' '.join(without_blocks(read(page)).split())
        # `Foo` layer, layers `Foo` and `Bar`, type: "Foo"
        named = set(re.findall(r'`([A-Z]\w*)` layers?\b', text))
        for names in re.findall(r'[Ll]ayers? ((?:`[A-Z]\w*`(?:, | and )?)+)', text):
            named.update(code_words(names))
        for _, _, block in blocks(read(page)):
            named.update(re.findall(r'\btype: "(\w+)" (?:top|bottom)', block))
            named.update(re.findall(r'\bL\.([A-Z]\w*)\(', block))
        for table in re.findall(r'^\| layers? \|.*\n\|[-|]+\|\n((?:\|.*\|\n)+)', read(page), re.M):
            for row in table.splitlines():
                named.update(code_words(row.split('|')[1]))
        named.discard('y = f(x)')
        assert named <= known | {'FooBar', 'Python'}, page
        text = text.replace(' '.join(section(differences, 'What is missing').split()), '')
        assert not absent & set(code_words(text)), page
    forks = section(differences, 'Layers').split('come from other forks')[0]
    for name in code_words(forks):
        assert name in known or name.endswith('_filler'), name


def fields_of(message):
    return set(getattr(caffe_pb2, message).DESCRIPTOR.fields_by_name)


def refused(call):
    try:
        call()
    except (AttributeError, RuntimeError, TypeError):
        return True
    return False


def solver_with(**settings):
    net = text_format.Parse(NET_OF_A_SOLVER, caffe_pb2.NetParameter())
    return caffe.get_solver(caffe_pb2.SolverParameter(
        **{**dict(net_param=net, base_lr=0.1, lr_policy='fixed'), **settings}))


NET_OF_A_SOLVER = """
    layer { name: "x" type: "Input" top: "x" top: "y" input_param { shape { dim: 2 dim: 1 dim: 4 dim: 4 } } }
    layer { name: "p" type: "InnerProduct" bottom: "x" top: "p" inner_product_param { num_output: 16 } }
    layer { name: "loss" type: "EuclideanLoss" bottom: "p" bottom: "y" } """


def pooled(**fields):
    pooling = ' '.join('%s: %s' % item for item in fields.items())
    return caffe.Net(text_format.Parse(NET_OF_A_SOLVER + """layer { name: "pool" type: "Pooling"
        bottom: "x" top: "pool" pooling_param { %s } }""" % pooling, caffe_pb2.NetParameter()))


def trains_with_narrow_weights():
    net = text_format.Parse(NET_OF_A_SOLVER, caffe_pb2.NetParameter())
    net.data_type = caffe_pb2.CAFFE_HALF
    return solver_with(net_param=net).net.params['p'][0].data.dtype != 'float32'


def transforms(field):
    """Whether ImageData takes this message in its transform_param."""
    with tempfile.TemporaryDirectory() as folder:
        image, images = os.path.join(folder, 'a.png'), os.path.join(folder, 'list')
        Image.new('RGB', (4, 4)).save(image)
        with open(images, 'w', encoding='utf-8') as file:
            file.write(image + ' 0\n')
        return not refused(lambda: caffe.Net(text_format.Parse(
            """layer { name: "x" type: "ImageData" top: "x" top: "y" transform_param { %s { } }
            image_data_param { source: "%s" batch_size: 1 } }""" % (field, images),
            caffe_pb2.NetParameter())).forward())


def reads_bmp():
    with tempfile.TemporaryDirectory() as folder:
        image, images = os.path.join(folder, 'a.bmp'), os.path.join(folder, 'list')
        Image.new('RGB', (4, 4)).save(image)
        with open(images, 'w', encoding='utf-8') as file:
            file.write(image + ' 0\n')
        return not refused(lambda: caffe.Net(text_format.Parse(
            """layer { name: "x" type: "ImageData" top: "x" top: "y"
            image_data_param { source: "%s" batch_size: 1 } }""" % images,
            caffe_pb2.NetParameter())).forward())


def written(word, *paths):
    """Whether a word is in the sources, but for the list of names of other Caffes."""
    return any(word in text for text in sources('.cpp', '.hpp', '.py', folders=paths)
               if 'kLayers' not in text)


# The names in the items of "What is missing", and whether each exists all the same: a change that
# adds one of these takes it out of the page.
MISSING = {
    'LevelDB': lambda: os.path.isdir(os.path.join(ROOT, 'src', 'caffe', 'data', 'leveldb')),
    'resize_param': lambda: transforms('resize_param'),
    'distort_param': lambda: transforms('distort_param'),
    'BMP': reads_bmp,
    'dilation': lambda: not refused(lambda: pooled(kernel_size=2, dilation=2)),
    'AdamW': lambda: not refused(lambda: solver_with(type='AdamW')),
    'LARS': lambda: not refused(lambda: solver_with(type='LARS')),
    'larc': lambda: 'larc' in fields_of('SolverParameter'),
    'cosine': lambda: not refused(lambda: solver_with(lr_policy='cosine')),
    'warmup_iter': lambda: 'warmup_iter' in fields_of('SolverParameter'),
    'Training with weights': trains_with_narrow_weights,
    'ONNX': lambda: written('import onnx', 'python'),
    'TensorBoard': lambda: written('tensorboard', 'python', 'tools'),
    '__dlpack__': lambda: hasattr(caffe.Blob, '__dlpack__'),
    'pickle': lambda: not refused(lambda: pickle.dumps(pooled(kernel_size=2))),
    'Plug-ins': lambda: written('plugin', 'tools'),
    'MatCaffe': lambda: os.path.isdir(os.path.join(ROOT, 'matlab')),
}
# Names in the items that are there.
THERE = {
    'ImageData': lambda: 'ImageData' in caffe.layer_type_list(),
    'new_height': lambda: 'new_height' in fields_of('ImageDataParameter'),
    'caffe.io.load_image': lambda: hasattr(caffe.io, 'load_image'),
    'new_width': lambda: 'new_width' in fields_of('ImageDataParameter'),
    'Pooling': lambda: pooled(kernel_size=2, dilation=1),
}


@needs_tool
def test_what_is_listed_as_missing_is_missing():
    caffe.set_device('cpu')
    text = section(read('docs/differences.md'), 'What is missing')
    items = re.split(r'\n(?=\* )', text.strip())
    assert len(items) > 10 and all(item.startswith('* ') for item in items)
    commands = {name for name in re.findall(r'^  ([\w-]+) +', subprocess.run(
        [TOOL, 'help'], check=True, capture_output=True, text=True).stdout, re.M)}
    tools = {name for folder in (os.path.dirname(TOOL), 'tools', 'python', 'python/caffe')
             for name in os.listdir(os.path.join(ROOT, folder))}
    for item in items:
        words = code_words(re.sub(r'\[`?[^]]*\]\([^)]*\)', '', item))
        assert not {'float', 'half', 'bfloat16'} & set(words), item
        if item.startswith(('* Layers of ', '* Tools: ')):
            known = set(caffe.layer_type_list()) | commands | tools
            assert not set(words) & known, item
            continue
        probes = [word for word in MISSING if '`%s`' % word in item or item.startswith('* ' + word)]
        assert probes, 'no probe in MISSING for: ' + item
        for word in words:
            assert word in MISSING or THERE[word](), word
        for word in probes:
            assert not MISSING[word](), '%s exists: take it out of "What is missing"' % word
    # Types of users are registered, and weights are stored in less than float.
    assert hasattr(caffe, 'register_type') and not re.search(r'users define|types of users', text)
    assert not re.search(r'\* Memory', text)


@pytest.mark.parametrize('data_type, tolerance', [('float', 1e-2), ('half', 3e-2),
                                                  ('bfloat16', 2e-1), ('double', 1e-2)])
def test_the_layer_in_python_is_right(data_type, tolerance, tmp_path, monkeypatch):
    import numpy as np
    page = blocks(section(read('docs/python.md'), 'Layers in Python'))
    (code,) = [text for language, _, text in page if language == 'python']
    (text,) = [text for language, _, text in page if language == 'prototxt']
    name = 'swish_' + data_type
    (tmp_path / (name + '.py')).write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    prototxt = tmp_path / 'net.prototxt'
    prototxt.write_text('force_backward: true data_type: CAFFE_%s %s' % (
        data_type.upper(), text.replace('module: "swish"', 'module: "%s"' % name)))
    caffe.set_device('cpu')
    net = caffe.Net(str(prototxt), caffe.TRAIN)
    x = np.linspace(-3, 3, 15).reshape(3, 5)

    def swish(x):
        return x / (1 + np.exp(-1.5 * x))

    np.testing.assert_allclose(net.forward(x=x)['y'].astype(float), swish(x), atol=tolerance)
    diff = net.backward(y=np.full((3, 5), 2))['x'].astype(float)
    step = 1e-4
    np.testing.assert_allclose(diff, (swish(x + step) - swish(x - step)) / step, atol=2 * tolerance)
