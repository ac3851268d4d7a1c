"""The documents of the tree, and what tests read from them: sections, tables, blocks, links."""
import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# All but the reports of benchmarks, which say what was true at their date.
DOCUMENTS = sorted(
    os.path.relpath(path, ROOT)
    for pattern in ('*.md', '*/*.md', '*/*/*.md', '*/*/*/*.md', '*/*/*/*/*.md')
    for path in glob.glob(os.path.join(ROOT, pattern))
    if not re.search(r'/(build[^/]*|results)/', path))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


def section(document, title):
    """The text below a heading, up to the next one of the same or a higher level."""
    found = re.search(r'^(#+) %s\n' % re.escape(title), document, re.M)
    assert found, title
    rest = document[found.end():]
    end = re.search(r'^#{1,%d} ' % len(found.group(1)), rest, re.M)
    return rest[:end.start()] if end else rest


def rows(text, first_word):
    """The cells of each row of the tables whose head begins with `first_word`."""
    tables = re.findall(r'^\| %s \|.*\n\|[-|:]+\|\n((?:\|.*\|\n)+)' % re.escape(first_word), text,
                        re.M)
    assert tables, first_word
    return [[cell.strip() for cell in line.strip('|').split('|')]
            for table in tables for line in table.splitlines()]


def code_words(text):
    return re.findall(r'`([^`]+)`', text)


def blocks(text):
    """(language, rest of the line, text) of each fenced block."""
    return re.findall(r'^```(\S*) ?(.*)\n((?:.*\n)*?)```$', text, re.M)


def without_blocks(text):
    """The text without fenced and indented blocks."""
    text = re.sub(r'^```.*\n(?:.*\n)*?```$', '', text, flags=re.M)
    return re.sub(r'(?<=\n\n)(?: {4}.*\n)+', '', text)


def anchors(text):
    """The anchors of headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r'^#+ (.*)', re.sub(r'^```.*\n(?:.*\n)*?```$', '', text, flags=re.M),
                              re.M):
        anchor = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
        assert anchor not in found, 'two headings are called ' + heading
        found.add(anchor)
    return found
