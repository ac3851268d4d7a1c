"""The errors of `import caffe` if something is missing."""
import os
import re
import shutil
import subprocess
import sys

import pytest

import caffe

PACKAGE = os.path.dirname(os.path.abspath(caffe.__file__))


def imported(folder, code=''):
    """The error of an import by a Python that has the standard library alone."""
    script = 'import sys; sys.path.insert(0, %r)\n%s\nimport caffe' % (str(folder), code)
    run = subprocess.run([sys.executable, '-I', '-S', '-c', script], capture_output=True, text=True,
                         timeout=60)
    assert run.returncode == 1
    return run.stderr.strip().splitlines()[-1]


@pytest.fixture
def tree(tmp_path):
    """A copy of the package's Python files in a tree of their own."""
    shutil.copytree(PACKAGE, tmp_path / 'python' / 'caffe',
                    ignore=shutil.ignore_patterns('*.so', '__pycache__', 'bin'))
    return tmp_path


def test_missing_packages_are_named_with_pip(tree):
    said = imported(tree / 'python')
    assert re.fullmatch(r'ImportError: caffe needs numpy and protobuf and ml_dtypes, which (\S*python\S*) '
                        r'does not have. Install them: \1 -m pip install numpy protobuf '
                        r'ml_dtypes', said), said


def test_the_environment_of_the_tree_is_named(tree):
    activate = tree / '.venv' / 'bin' / 'activate'
    activate.parent.mkdir(parents=True)
    activate.write_text('')
    said = imported(tree / 'python')
    assert 'caffe needs numpy' in said and 'type ". %s" first' % activate in said
    assert 'pip' not in said


@pytest.mark.parametrize('missing, package', [('numpy', 'numpy'), ('ml_dtypes', 'ml_dtypes'),
                                              ('google', 'protobuf')])
def test_each_package_is_missed(tree, missing, package):
    site = [path for path in sys.path if path.endswith('site-packages')]
    said = imported(tree / 'python', '''
sys.path += %r
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == %r:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())''' % (site, missing))
    assert 'caffe needs %s, which' % package in said and said.endswith('-m pip install ' + package)


def test_a_tree_that_was_not_built(tree):
    site = [path for path in sys.path if path.endswith('site-packages')]
    add = 'sys.path += %r' % site
    said = imported(tree / 'python', add)
    assert 'caffe was not built. Build it for this Python: tools/build.sh release _caffe' in said
    (tree / 'python' / 'caffe' / '_caffe.cpython-35m-x86_64-linux-gnu.so').write_text('')
    said = imported(tree / 'python', add)
    assert 'caffe was built for another Python (_caffe.cpython-35m-x86_64-linux-gnu.so)' in said


def test_the_packages_are_those_of_pyproject():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, 'pyproject.toml'), encoding='utf-8') as file:
        line = next(line for line in file if line.startswith('dependencies'))
    with open(os.path.join(root, 'tools', 'install_dependencies.sh'), encoding='utf-8') as file:
        script = file.read()
    from caffe.requirements import _PACKAGES
    for package in _PACKAGES.values():
        assert '"%s' % package in line and package in script
