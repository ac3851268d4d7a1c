"""The scripts of examples/recurrent, with small settings."""
import os
import re
import subprocess
import sys

import pytest

from documents import ROOT

FOLDER = os.path.join(ROOT, 'examples', 'recurrent')


def run(script, *arguments):
    result = subprocess.run([sys.executable, os.path.join(FOLDER, script)] + list(arguments),
                            capture_output=True, text=True, timeout=300,
                            env=dict(os.environ, CAFFE_LOG='warning'))
    return result.returncode, result.stdout + result.stderr


@pytest.mark.parametrize('task', ['copy', 'add'])
@pytest.mark.parametrize('layer', ['LSTM', 'GRU'])
def test_an_easy_task_is_solved(task, layer):
    code, text = run('copy_and_add.py', task, '--delay', '8', '--symbols', '1', '--hidden', '24',
                     '--rate', '0.01', '--layer', layer)
    assert code == 0, text
    found = re.search(r'%s, \d+ steps, after \d+ iterations .*error ([\d.]+) on new sequences'
                      % task, text)
    assert found, text
    int8 = float(re.search(r'in int8: error ([\d.]+)', text).group(1))
    assert int8 < float(found.group(1)) + 0.01, text


def test_a_task_that_was_not_learned_fails():
    code, text = run('copy_and_add.py', 'copy', '--iterations', '1')
    assert code == 1, text
    code, text = run('copy_and_add.py', 'copy', '--iterations', '1', '--no-check')
    assert code == 0, text


def test_text_is_mostly_words():
    code, text = run('write_text.py', '--iterations', '250', '--sentences', '1500', '--hidden', '64',
                     '--letters', '600')
    assert code == 0, text
    for name in 'float', 'int8':
        known = float(re.search(r'%s, 600 letters: ([\d.]+)%% of \d+ words' % name, text).group(1))
        assert known > 60, text


def test_the_grammar_accepts_what_it_makes():
    sys.path.insert(0, FOLDER)
    try:
        from write_text import Grammar
    finally:
        sys.path.remove(FOLDER)
    import numpy as np
    grammar, random = Grammar(), np.random.RandomState(5)
    for _ in range(300):
        sentence = grammar.sentence(random)
        assert grammar.accepts(sentence), sentence
        assert set(sentence.rstrip('.').split(' ')) <= grammar.vocabulary()
    for wrong in ['a dog see a bird', 'two dog see a bird', 'a old dog sees a bird', 'dogs', '',
                  'a dog sees a dog', 'a dog sees a bird bird', 'an red dog sees a bird']:
        assert not grammar.accepts(wrong), wrong
