"""Every command that a document prints works in the shell that a newcomer has at that point.

Each document is run from its first command to its last in a shell without anything of the caller's
environment, whose python3 has no packages, in a copy of the tree with made-up data. RULES says what
replaces a command there, or why it is not run; a command that no rule knows fails, and so does a rule
that no command needs.
"""
import os
import re
import shutil
import struct
import subprocess

import pytest

from documents import DOCUMENTS, ROOT, blocks, read

TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
ACTIVATE = os.path.join(ROOT, '.venv', 'bin', 'activate')
PROGRAM = re.compile(r'(caffe|mpirun|srun|python3|pip|ctest|chrt|cd|git|\.|tools/\w+\.(sh|py)|build/\S+|'
                     r'\.venv/\S+|convert_\w+|compute_image_mean|[A-Z_]+=\S+)( |$)')

# Blocks that are not commands, by their first lines.
OUTPUTS = (r'precision +average error', r'\d+ digits for training', r'//! types: ', r'FOR_EACH',
           r'const Acctype v = LOAD', r'\| ', r'copy, \d+ steps', r'a quiet robot', r'\d+ letters: ')


class Run:
    """The command is run with these replacements, and `more` at its end."""

    def __init__(self, *replacements, more=''):
        self.replacements, self.more = replacements, more

    def __call__(self, command):
        for pattern, text in self.replacements:
            command, count = re.subn(pattern, text, command)
            assert count, '%s does not have %s' % (command, pattern)
        return command + self.more


class Skip:
    def __init__(self, reason):
        self.reason = reason


AS_IT_IS = Run()
CPU = (r'--device cuda:0', '--device cpu')
SYNOPSIS = Skip('a synopsis; document_facts_test.py compares it with --help')

# (document, command), both regular expressions -> what is done. The first that fits counts.
RULES = [
    ('', r'\. \.venv/bin/activate', AS_IT_IS),
    ('README.md', r"PYTHONPATH=python python3 -c 'import caffe'", AS_IT_IS),
    ('README.md', r'PYTHONPATH=python CAFFE_LOG=warning python3 xor\.py', AS_IT_IS),
    ('', r'tools/demo\.sh', Skip('test_the_demo_and_what_it_proposes runs it')),
    ('', r'tools/(test|check|gpu_test|package_test|build|install_dependencies)\.sh'
     r'( \[.*| FOLDER| --sanitize)?', Skip('they install, build, or run these tests')),
    ('tests/README.md', r'tools/fuzz\.sh --list', AS_IT_IS),
    ('', r'tools/fuzz\.sh (TARGET|weights) (600|SECONDS)',
     Skip('it builds with clang, and runs ten minutes')),
    ('', r'tools/nightly\.sh', Skip('it runs for hours')),
    ('', r'tools/valgrind\.sh', Skip('it takes minutes, and valgrind may be missing')),
    ('tests/README.md', r'build-sanitize/fuzz/fuzz_weights .*', Skip('the finding is made up')),
    ('', r'pip install \.', Skip('tools/package_test.sh runs it; it compiles everything')),
    ('docs/adding_a_layer.md', r'tools/build\.sh release tool_caffe test_layers .* && .*',
     Run((r'^.* && ', ''))),
    # Where only some targets are built it is absent; the line before it builds it.
    ('', r'(\w+=\d+ )*build/tests/test_\w+( --gtest_filter=.*)?',
     Run((r'^((?:\w+=\d+ )*)(\S+)', r'[ ! -e \2 ] || \1\2'), more=' --gtest_list_tests')),
    ('tests/README.md', r'ctest --test-dir build -(L null|j 2)',
     Skip('tools/test.sh runs all of ctest; the names of its labels are in tests/CMakeLists.txt')),
    ('tests/README.md', r'\.venv/bin/python3 -m pytest -q -n 2 tests/python',
     Run((r'tests/python', 'tests/python/io_test.py'), more=' --collect-only')),
    ('docs/command_line.md', r'(caffe|convert_\w+|compute_image_mean) .*([|\[]|[A-Z]{2}).*', SYNOPSIS),
    ('', r'caffe (train|test|time|tune|quantize|classify|cache)|convert_imageset -[a-z_]+', Skip('a name in the running text')),
    ('docs/command_line.md', r'mkdir logs', AS_IT_IS),
    ('docs/command_line.md', r'caffe train -solver solver\.prototxt -log_dir logs',
     Run((r'^', 'python3 examples/mnist/create_mnist.py --data "$MNIST" && build/tools/'),
         (r'solver\.prototxt', 'models/lenet/lenet_solver.prototxt'))),
    ('docs/several_devices.md', r'caffe train -solver solver\.prototxt -gpu (0,1|all)',
     Skip('it needs several GPUs; several_ranks_test.py runs ranks on the CPU')),
    ('docs/several_devices.md', r'caffe train -solver solver\.prototxt -gpu cpu,cpu',
     Run((r'^', 'python3 examples/mnist/create_mnist.py --data "$MNIST" && build/tools/'),
         (r'solver\.prototxt', 'models/lenet/lenet_solver.prototxt'))),
    ('docs/several_devices.md', r'(mpirun|srun) .*',
     Skip('it needs several machines; several_ranks_test.py runs mpirun on one')),
    ('docs/command_line.md', r'caffe transform -model train_val\.prototxt .*',
     Run((r'^', 'build/tools/'), (r'train_val\.prototxt', 'models/lenet/lenet_train_test.prototxt'),
         (r'trained\.caffemodel', 'models/lenet/lenet_iter_20.caffemodel'), more=' -gpu cpu')),
    ('docs/command_line.md', r'caffe classify -model deploy\.prototxt .*',
     Skip('tests/tools/classify_command_test.cpp runs it, with images that it makes')),
    ('', r'caffe (transform|moe-init)', Skip('a name in the running text')),
    ('docs/mixture_of_experts.md', r'caffe moe-init .*', SYNOPSIS),
    ('docs/command_line.md', r'(python3 )?tools/(parse|plot)_log\.py logs/caffe\.INFO.*', AS_IT_IS),
    ('docs/', r'caffe time -plan', Run((r'^', 'build/tools/'), more=' -phase TEST -iterations 2 '
                                       '-gpu cpu -model models/lenet/lenet.prototxt')),
    ('docs/command_line.md', r'caffe benchmark -models lenet,squeezenet .*',
     Run((r'^', 'build/tools/'), ('lenet,squeezenet', 'lenet'),
         more=' -iterations 1 -seconds 0.01')),
    ('docs/command_line.md', r'caffe benchmark -merge types\.json -out all', Run((r'^', 'build/tools/'))),
    ('tools/benchmark/', r'build/tools/caffe benchmark -models lenet,squeezenet .*',
     Run(('lenet,squeezenet', 'lenet'), ('cpu,opencl:0', 'cpu'),
         more=' -iterations 1 -seconds 0.01')),
    ('tools/benchmark/', r'build/tools/caffe benchmark -models caffenet .*',
     Skip('it needs the results of PyTorch; peer_cells_test.py merges such a file')),
    ('', r'caffe benchmark( -merge)?', Skip('a name in the running text')),
    ('docs/', r'caffe tune -model net\.prototxt -train',
     Run((r'^', 'build/tools/'), (r'net\.prototxt', 'models/lenet/lenet.prototxt'),
         more=' -gpu cpu -iterations 2')),
    ('docs/', r'caffe cache list', Run((r'^', 'build/tools/'))),
    ('docs/', r'caffe cache prune --all', Run((r'^', 'CAFFE_CACHE_DIR=$PWD/cache build/tools/'))),
    ('docs/devices.md', r'caffe device_query --self-test -gpu opencl:0 -report report\.json',
     Run((r'^', 'build/tools/'), ('opencl:0', 'cpu'), ('--self-test', '--self-test quant8'))),
    ('', r'tools/driver_test\.sh( opencl:0)?', Skip('it takes minutes')),
    ('docs/', r'caffe device_query --self-test', Run((r'^', 'build/tools/'),
                                                         more=' -gpu cpu')),
    ('', r'caffe (layers|device_query|help|version)', Run((r'^', 'build/tools/'))),
    ('examples/celsius/', r'cd examples/celsius', AS_IT_IS),
    ('examples/celsius/', r'python3 (create_networks|train|test)\.py( float)?', AS_IT_IS),
    ('examples/digits/', r'python3 examples/digits/digits\.py .*',
     Run(('cpu opencl:0', 'cpu'), more=' --iterations 30')),
    ('examples/mnist/', r'python3 examples/mnist/create_mnist\.py .*', Run(('FOLDER', '"$MNIST"'))),
    ('', r'build/tools/caffe train -solver models/lenet/lenet_solver\.prototxt', AS_IT_IS),
    ('examples/mnist/', r'python3 tools/plot_log\.py FOLDER/caffe\.INFO',
     Run((r'FOLDER/', ''), (r'^', 'build/tools/caffe train -solver models/lenet/lenet_solver.prototxt '
                                  '-log_dir . && '))),
    ('examples/mnist/', r'python3 examples/mnist/train_lenet\.py .*',
     Run(('FOLDER', '"$MNIST"'), CPU, more=' --iterations 20')),
    ('examples/mnist/', r'python3 examples/mnist/simple\.py .*',
     Run(('FOLDER', '"$MNIST"'), more=' --iterations 20 --images 50')),
    ('docs/quantization.md', r'python3 examples/mnist/create_mnist\.py .*',
     Run(('FOLDER', '"$MNIST"'))),
    ('docs/quantization.md', r'build/tools/caffe quantize .* -method dynamic .*',
     Run(('_10000', '_20'), more=' -gpu cpu')),
    ('docs/quantization.md', r'build/tools/caffe quantize -model models/lenet/\S+ .*',
     Run(('_10000', '_20'), ('-iterations 10', '-iterations 1'), more=' -gpu cpu')),
    ('docs/quantization.md', r'build/tools/caffe test -model lenet_int8.*',
     Run(('-iterations 100', '-iterations 2'), more=' -gpu cpu')),
    ('docs/quantization.md', r'caffe quantize -model deploy\.prototxt .*',
     Skip('tests/tools/quantize_command_test.cpp runs it, with images that it makes')),
    ('examples/cifar10/', r'python3 examples/cifar10/create_cifar10\.py .*',
     Run(('FOLDER', '"$CIFAR"'))),
    ('examples/cifar10/', r'build/tools/caffe train -solver models/cifar10_quick/\S+', AS_IT_IS),
    ('examples/cifar10/', r'build/tools/caffe train .* -snapshot \S+_iter_4000\.solverstate',
     Run(('_4000', '_5'))),
    ('examples/cifar10/', r'python3 examples/cifar10/train_quick\.py .*',
     Run(('FOLDER', '"$CIFAR"'), CPU, more=' --fraction 0.001')),
    ('examples/recurrent/', r'python3 examples/recurrent/copy_and_add\.py (copy|add)',
     Run(more=' --iterations 2 --no-check')),
    ('examples/recurrent/', r'python3 examples/recurrent/write_text\.py',
     Run(more=' --iterations 20 --sentences 300 --letters 100')),
    ('examples/squeezenet/', r'python3 examples/squeezenet/evaluate\.py .*',
     Run((r'<data>.*', '--help'))),
    ('examples/cpp_forward/', r'cmake --install build .*', Run((' build ', ' %s/build ' % ROOT))),
    ('examples/cpp_forward/', r'(cmake .* -B build-cpp|build-cpp/cpp_forward) .*', AS_IT_IS),
    ('examples/moe/', r'python3 examples/moe/train\.py --data .*',
     Run(('MNIST_FOLDER', '"$MNIST"'), more=' --iterations 5 --images 100 --device cpu')),
    ('examples/moe/', r'python3 examples/moe/train\.py --set cifar10 .*',
     Run(('CIFAR_FOLDER', '"$CIFAR"'), ('2000', '5'), more=' --images 100 --device cpu')),
    ('examples/imagenet/', r'python3 examples/imagenet/\w+\.py .*', Run((r'(\.py).*', r'\1 --help'))),
    ('models/', r'python3 models/\w+/generate\.py --types .*', Run(('FOLDER', '.'))),
    ('tools/benchmark/', r'(chrt -f 50 )?python3 …', Skip('an ellipsis for the lines above it')),
    ('tools/benchmark/', r'python3 tools/benchmark/\w+\.py.*', Run((r'(\.py).*', r'\1 --help'))),
]


def without_comment(line):
    return re.sub(r' {2,}#.*|(?<=\S) # .*', '', line).rstrip()


def commands_of(text):
    """The commands of a document, in its order: of blocks, and those in the running text."""
    found, block, paragraph, fence = [], [], [], None

    def end_of_block():
        if block and not any(re.match(output, block[0]) for output in OUTPUTS):
            joined = re.sub(r' *\\\n *', ' ', '\n'.join(block))
            # A line that is further to the right goes on with the one before it.
            joined = re.sub(r'\n {4,}', ' ', joined)
            found.extend(without_comment(line) for line in joined.splitlines())
        block.clear()

    def end_of_paragraph():
        for code in re.findall(r'`([^`]+)`', ' '.join(paragraph)):
            if PROGRAM.match(code) and (' ' in code or code.endswith('.sh')):
                found.append(code)
        paragraph.clear()

    for line in text.splitlines() + ['']:
        if line.startswith('```'):
            end_of_block()
            end_of_paragraph()
            fence = None if fence is not None else line[3:]
            assert fence != '', 'a fence says its language'
        elif fence is not None:
            if fence == 'sh':
                block.append(line)
        elif line.startswith('    ') and not paragraph:
            block.append(line[4:])
        else:
            end_of_block()
            if line.strip():
                paragraph.append(line.strip())
            else:
                end_of_paragraph()
    return found


def rule_of(document, command):
    for number, (where, pattern, action) in enumerate(RULES):
        if document.startswith(where) and re.fullmatch(pattern, command):
            return number, action
    raise AssertionError('%s: no rule says how to run, or why not:\n    %s' % (document, command))


needs_the_tree = pytest.mark.skipif(
    not os.path.exists(TOOL) or not os.path.exists(ACTIVATE),
    reason='build/tools/caffe or .venv is not there (tools/build.sh)')


def test_every_command_has_a_rule_and_every_rule_a_command():
    used = set()
    for document in DOCUMENTS:
        for command in commands_of(read(document)):
            used.add(rule_of(document, command)[0])
    unused = [RULES[number][:2] for number in range(len(RULES)) if number not in used]
    assert not unused


def test_commands_are_found_where_they_stand():
    text = ('Text\n\n    tools/a.sh x  # why\n    caffe train \\\n        -solver s\n\n'
            'More `caffe test -model m` and `caffe`, `data`.\n\n```python\nx = 1\n```\n\n'
            '```sh\nls\n```\n\n    precision  average error\n    float 1\n\n* item\n    goes on\n')
    assert commands_of(text) == ['tools/a.sh x', 'caffe train -solver s',
                                 'caffe test -model m', 'ls']


def write_mnist(folder):
    """10,200 images to train (simple.py leaves out 10,000) and 200 to test, which are noise."""
    os.makedirs(folder)
    for part, count in (('train', 10200), ('t10k', 200)):
        with open(os.path.join(folder, part + '-images-idx3-ubyte'), 'wb') as file:
            file.write(struct.pack('>4I', 2051, count, 28, 28) + os.urandom(count * 28 * 28))
        with open(os.path.join(folder, part + '-labels-idx1-ubyte'), 'wb') as file:
            file.write(struct.pack('>2I', 2049, count) + bytes(i % 10 for i in range(count)))


def write_cifar(folder):
    os.makedirs(folder)
    for name in ['data_batch_%d.bin' % number for number in range(1, 6)] + ['test_batch.bin']:
        with open(os.path.join(folder, name), 'wb') as file:
            for label in range(10):
                for _ in range(10):
                    file.write(bytes([label]) + os.urandom(3072))


def shorten(path, **values):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    for name, value in values.items():
        text, count = re.subn(r'^%s: .*' % name, '%s: %s' % (name, value), text, flags=re.M)
        assert count == 1, name
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


class Newcomer:
    """A copy of the tree after tools/demo.sh, and fresh shells in it."""

    def __init__(self, folder):
        self.tree = str(folder / 'cortado')
        self.home = str(folder / 'home')
        for name in ('mnist', 'cifar'):
            setattr(self, name, str(folder / name))
        os.makedirs(self.home)
        os.makedirs(os.path.join(self.tree, 'build'))
        # The files that a command may write to are copies.
        for name in ('.venv', 'python', 'tools', 'tests', 'build/tools', 'build/tests'):
            os.symlink(os.path.join(ROOT, name), os.path.join(self.tree, name))
        for name in ('examples', 'models'):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(self.tree, name),
                            ignore=shutil.ignore_patterns('*_lmdb', 'data', '__pycache__',
                                                          '*.caffemodel', '*.solverstate'))
        os.makedirs(os.path.join(self.tree, 'examples', 'data'), exist_ok=True)
        shutil.copy(os.path.join(ROOT, 'examples', 'data', 'create_mnist_pickle.py'),
                    os.path.join(self.tree, 'examples', 'data'))
        models = os.path.join(self.tree, 'models')
        shorten(os.path.join(models, 'lenet', 'lenet_solver.prototxt'), max_iter=20, display=5,
                test_iter=2, test_interval=10, snapshot=20)
        quick = os.path.join(models, 'cifar10_quick', 'cifar10_quick_solver')
        shorten(quick + '.prototxt', max_iter=5, snapshot=5, test_iter=1)
        shorten(quick + '_lr1.prototxt', max_iter=8, snapshot=8, test_iter=1)
        write_mnist(self.mnist)
        write_cifar(self.cifar)
        # On a bare Debian python3 has no packages; here it may have.
        path = str(folder / 'bin')
        os.makedirs(path)
        with open(os.path.join(path, 'python3'), 'w', encoding='utf-8') as file:
            file.write('#!/bin/sh\nexec /usr/bin/python3 -S "$@"\n')
        os.chmod(os.path.join(path, 'python3'), 0o755)
        self.path = path + ':/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

    def type(self, commands, before=''):
        """What a fresh shell prints that gets these lines; its exit status."""
        script = '\n'.join(['set -e', before] + ['echo "+ %s"\n%s' % (
            re.sub(r'(["$`\\])', r'\\\1', command), command) for command in commands])
        environment = {'HOME': self.home, 'PATH': self.path, 'TERM': 'dumb', 'LANG': 'C.UTF-8',
                       'MNIST': self.mnist, 'CIFAR': self.cifar}
        for name in ('OMP_NUM_THREADS', 'CAFFE_CACHE_DIR', 'POCL_CACHE_DIR'):
            if name in os.environ:
                environment[name] = os.environ[name]
        run = subprocess.run(['/bin/bash', '--noprofile', '--norc', '-c', script], cwd=self.tree,
                             env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=600, errors='replace')
        return run.stdout, run.returncode


@pytest.fixture
def newcomer(tmp_path):
    return Newcomer(tmp_path)


@needs_the_tree
@pytest.mark.parametrize('document', DOCUMENTS)
def test_the_commands_of_a_document_work(newcomer, document):
    commands = []
    for command in commands_of(read(document)):
        _, action = rule_of(document, command)
        if isinstance(action, Run):
            commands.append(action(command))
    if not commands:
        pytest.skip('no command of it is run')
    before = ''
    if 'xor.py' in ''.join(commands):
        (listing,) = [text for language, _, text in blocks(read(document)) if language == 'python']
        before = "cat > xor.py <<'PYTHON'\n%sPYTHON" % listing
    output, status = newcomer.type(commands, before)
    assert status == 0, output[-4000:]


@needs_the_tree
def test_a_python_without_packages_is_told_where_they_are(newcomer):
    for command in ("PYTHONPATH=python python3 -c 'import caffe'",
                    'python3 examples/mnist/train_lenet.py', 'python3 examples/mnist/simple.py',
                    'python3 examples/cifar10/train_quick.py', 'python3 examples/digits/digits.py',
                    'python3 examples/squeezenet/evaluate.py data',
                    'python3 examples/recurrent/copy_and_add.py add',
                    'python3 examples/recurrent/write_text.py',
                    'cd examples/celsius; python3 create_networks.py'):
        output, status = newcomer.type([command])
        assert status == 1
        # As the symbolic link of the copy is read.
        assert re.search(r'caffe needs numpy and .* does not have\. The packages are in \.venv; '
                         r'type "\. \S+/\.venv/bin/activate" first\n$', output), output


@needs_the_tree
def test_the_demo_and_what_it_proposes(newcomer):
    environment = dict(os.environ, CAFFE_INSTALL='off')
    run = subprocess.run(['tools/demo.sh', '--iterations', '30', '--types', 'float', 'int8',
                          '--devices', 'cpu'], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout[-4000:]
    assert re.search(r'^int8 +cpu ', run.stdout, re.M)
    proposed = [without_comment(line) for line in
                re.findall(r'^    (.*)', run.stdout.split('\nNext, ')[1], re.M)]
    assert len(proposed) == 3
    # It is downloaded unless it is there.
    shutil.copytree(newcomer.mnist, os.path.join(newcomer.tree, 'examples', 'mnist', 'data'))
    output, status = newcomer.type(proposed)
    assert status == 0, output[-4000:]
    assert 'Optimization Done.' in output
