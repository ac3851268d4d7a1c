"""tools/check_words.py finds the phrases of its list, also across lines, and the tree has none."""
import os
import subprocess
import sys

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), os.pardir, os.pardir))
SCRIPT = os.path.join(ROOT, 'tools', 'check_words.py')


def _run(root):
    return subprocess.run([sys.executable, SCRIPT, str(root)], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path):
    """Writes one file into a git repository and checks it; gives the lines of the report."""
    subprocess.run(['git', 'init', '-q', str(tmp_path)], check=True)

    def check(text, name='a.cpp'):
        (tmp_path / name).write_text(text, encoding='utf-8')
        subprocess.run(['git', '-C', str(tmp_path), 'add', name], check=True)
        run = _run(tmp_path)
        assert run.returncode == (1 if run.stdout else 0), run.stderr
        return run.stdout.splitlines()
    return check


@pytest.mark.parametrize('text, phrase', [
    ('// It can not fail.\n', 'can not'),
    ('// Whoever reads this.\n', 'Whoever'),
    ('int a;  // nobody reads it\n', 'nobody'),
    ('// A scale that is none.\n', 'is none'),
    ('// A value that is no number stays.\n', 'is no number'),
    ('// What a pass needs.\n', 'What'),
    ('// Labels are no\n// numbers.\n', 'are no numbers'),
    ('throw Error("the layer wants it");\n', 'wants it'),
    ('throw Error("the weights can "\n            "not be read");\n', 'can not'),
    ('// It tells the place.\n', 'tells'),
    ('// SetWeights has not got them.\n', 'has not got'),
    ('// made anew\n', 'anew'),
    ('// Of the last forward.\n', 'Of'),
    ('// ' + 98 * 'x' + '\n', 98 * 'x'),
])
def test_phrases_are_found_with_their_lines(tree, text, phrase):
    report = tree('int x;\n' + text)
    assert len(report) == 1 and report[0].startswith('a.cpp:2: "%s"; write ' % phrase)


@pytest.mark.parametrize('text', [
    '// It cannot fail. There is no layer of this name, and where there is none, it is an error.\n',
    '// It is no longer there, and a sum is no slower.\n',
    '// There\n// are no weights.\n',
    'const bool is_none = wants(it);\n',
    '// The bytes\n// Of a blob, in a line that goes on.\n',
    'const char* text = "' + 98 * 'x' + '";\n',
])
def test_plain_sentences_pass(tree, text):
    assert tree(text) == []


def test_files_of_other_kinds_are_left_alone(tree):
    assert tree('whoever', 'a.prototxt') == []
    assert len(tree('whoever\n', 'b.sh')) == 1


def test_the_tree_has_none_of_the_phrases():
    run = _run(ROOT)
    assert run.returncode == 0, run.stdout + run.stderr
