"""Documents are short, their links lead somewhere, and their words are those of the field."""
import os
import re

import pytest

from documents import DOCUMENTS, ROOT, anchors, blocks, code_words, read, rows, without_blocks

PAGES = [name for name in DOCUMENTS if name.startswith('docs/')]

# Words that make a reader decode a sentence, and what says the same.
RIDDLES = {
    r'can not': 'cannot',
    r'whoever|whatever|wherever': 'name the function or the case',
    r'(is|are|was|were) none': 'does not exist; is invalid',
    r'no number': 'NaN; not a number',
    r'(?<!there )(is|are|was|were) no(?! longer)': 'is not a …',
    r'(tells|told|says who|telling)': 'say who does what: X reports Y, X passes Y to Z',
    r'wants|wanted': 'needs; requires',
    r'anew': 'again',
    r'as ever': 'as before',
    r'of its own accord|by itself alone': 'name the cause',
    r'what is no|what are no': 'name it',
    r'the thing': 'name it',
    r'those that are|that which': 'name them',
    r'gone': 'removed',
    r'takes? part': 'is used',
    r'hands? on|handed on': 'passes; copies',
    r'(?<!/)a place(?!holder)|the place|its place|places of': 'folder, position, index',
    r'for ever': 'forever; without limit',
}


def test_the_readme_is_short():
    assert len(read('README.md').encode()) <= 9000


def test_every_page_is_in_the_index():
    linked = re.findall(r'\]\((\w+\.md)\)', read('docs/README.md'))
    assert sorted(linked) == sorted(os.path.basename(name) for name in PAGES
                                    if name != 'docs/README.md')
    assert 'docs/README.md' in re.findall(r'\]\(([^)]+)\)', read('README.md'))


@pytest.mark.parametrize('name', DOCUMENTS)
def test_links_lead_somewhere(name):
    text = re.sub(r'^```.*\n(?:.*\n)*?```$', '', read(name), flags=re.M)
    folder = os.path.join(ROOT, os.path.dirname(name))
    for link in re.findall(r'\]\(([^)]+)\)', text):
        if '://' in link:
            continue
        path, _, anchor = link.partition('#')
        target = os.path.normpath(os.path.join(folder, path)) if path else os.path.join(ROOT, name)
        assert os.path.exists(target), link
        if anchor:
            assert anchor in anchors(read(target)), link


@pytest.mark.parametrize('name', DOCUMENTS)
def test_paths_are_there(name):
    folder = os.path.join(ROOT, os.path.dirname(name))
    top = 'src|include|kernels|tests|tools|examples|models|python|proto|cmake|docs'
    for path in re.findall(r'`((?:%s)/[\w./-]*)`' % top, read(name)):
        if re.search(r'/foo_bar|^examples/(imagenet|mnist/data)$', path):  # what a reader makes
            continue
        assert os.path.exists(os.path.join(ROOT, path)) or os.path.exists(
            os.path.join(folder, path)), path


@pytest.mark.parametrize('name', DOCUMENTS)
def test_the_english_is_plain(name):
    text = re.sub(r'`[^`]*`', '`code`', ' '.join(without_blocks(read(name)).split()))
    found = []
    for riddle, better in RIDDLES.items():
        for match in re.finditer(r'\b(%s)\b' % riddle, text, re.I):
            around = text[max(0, match.start() - 40):match.end() + 30]
            found.append('"%s": %s' % (around, better))
    assert not found, '\n'.join(found)


@pytest.mark.parametrize('name', DOCUMENTS)
def test_sentences_are_not_too_long(name):
    """35 words, a piece of code or a link being one."""
    text = re.sub(r'`[^`]*`', 'code', without_blocks(read(name)))
    text = re.sub(r'\[([^\]]*)\]\([^)]*\)', 'link', text)
    for paragraph in re.split(r'\n\s*\n|\n(?=\s*[*|#-] |\||\d\. )', text):
        for sentence in re.split(r'(?<=[.:;?|])\s', ' '.join(paragraph.split())):
            assert len(sentence.split()) <= 35, '%s: %s' % (name, sentence)


@pytest.mark.parametrize('name', DOCUMENTS)
def test_lines_are_not_too_long(name):
    """125 columns, but for tables."""
    for number, line in enumerate(read(name).splitlines(), 1):
        assert len(line) <= 125 or line.startswith('|'), '%s:%d' % (name, number)


@pytest.mark.parametrize('name', DOCUMENTS)
def test_tables_have_as_many_cells_in_every_row(name):
    table = None
    for line in read(name).splitlines():
        if not line.startswith('|'):
            table = None
            continue
        # GitHub ends a cell at a bar even inside code.
        cells = len(re.findall(r'(?<!\\)\|', line)) - 1
        table = table or cells
        assert cells == table, line


def test_the_table_of_words_finds_them():
    text = 'It can not be; whoever has it tells it. There is no cure, and it is no cure.'
    found = [riddle for riddle in RIDDLES if re.search(r'\b(%s)\b' % riddle, text, re.I)]
    assert len(found) == 4


def test_what_tests_read_from_documents():
    text = ('# One\n\n| a | b |\n|---|---|\n| `x` | y |\n\n## A b(c) = d!\n\n```c++ path\nz\n```\n'
            '\n    code\n\nend `w`\n')
    assert rows(text, 'a') == [['`x`', 'y']]
    assert anchors(text) == {'one', 'a-bc--d'}
    assert blocks(text) == [('c++', 'path', 'z\n')]
    assert code_words(without_blocks(text)) == ['x', 'w']
    assert 'code' not in without_blocks(text)
