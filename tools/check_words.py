#!/usr/bin/env python3
"""Checks comments and messages of the sources for what makes a reader guess.

check_words.py [ROOT] prints every phrase of the list below with its line and what to write instead.
A phrase may continue on the next line. It also prints comments that begin with "Of" or "What", whose
subject is missing, and those that are longer than 100 columns. It exits 1 if it has found one.
"""
import os
import re
import subprocess
import sys

SUFFIXES = ('.cpp', '.hpp', '.h', '.py', '.pyi', '.sh', '.cmake', '.proto')
# These files quote the phrases.
EXEMPT = ('tools/check_words.py', 'tests/python/check_words_test.py',
          'tests/python/document_style_test.py')

# Phrase -> what to write. A match of the group `fine` is allowed.
PHRASES = [
    (r'[Cc]an not', '"cannot"'),
    (r'[Ww]ho(?:m|so)?ever', 'the name of the function or the case'),
    (r'(?:[Ss]ome|[Nn]o)body', 'the name of the function or the case'),
    (r"one's own", 'whose it is'),
    (r'(?:(?P<fine>[Tt]here) )?(?:is|are|was|be) none',
     'what it is: NaN, an invalid range, not set, …'),
    (r'(?:(?P<fine>[Tt]here) )?(?:is|are) no '
     r'(?!(?:more|less|worse|better|longer|faster|slower|larger|smaller|later|earlier)\b)[a-z]+',
     '"is not a …", "has no …" or "invalid …"'),
    (r'has not got', 'which function was not called'),
    (r'of no use|(?:is|are) no use', 'what to do instead'),
    (r'wants (?:it|them|this|that)', 'what the function expects or needs'),
    (r'[Tt]ells', 'returns, prints, reports or describes'),
    (r'anew', '"again"'),
]


def _pattern(phrase):
    """A phrase whose words may stand on two lines of a comment or in adjacent literals."""
    gap = r'''(?: |\s*\n\s*(?:(?://|#|\*)\s*)?| ?["']\s*\n\s*["'] ?)'''
    return re.compile(r'(?<![\w-])(?:%s)(?![\w-])' % phrase.replace(' ', gap))


# Lines that are comments alone.
_COMMENT = re.compile(r'^ *(?://|#) .*$', re.MULTILINE)
_MOST_COLUMNS = 100

_PATTERNS = [(_pattern(phrase), advice) for phrase, advice in PHRASES]


def faults(text):
    """(line, phrase, advice) of every phrase in a text, in the order of lines."""
    found = []
    for pattern, advice in _PATTERNS:
        for match in pattern.finditer(text):
            if match.groupdict().get('fine'):
                continue
            line = text.count('\n', 0, match.start()) + 1
            found.append((line, ' '.join(re.findall(r"[\w']+", match.group())), advice))
    before = ''
    for number, line in enumerate(text.split('\n'), 1):
        if _COMMENT.match(line):
            begins = not _COMMENT.match(before) or before.rstrip().endswith('.')
            if begins and re.match(r' *(?://|#) Of\b', line):
                found.append((number, 'Of', 'a sentence with a subject: what it is of that'))
            if not _COMMENT.match(before) and re.match(r' *(?://|#) What\b', line):
                found.append((number, 'What', 'what kind of thing it is: the values that …'))
            if len(line) > _MOST_COLUMNS:
                found.append((number, line.split()[1], 'lines of at most %d columns' % _MOST_COLUMNS))
        before = line
    return sorted(found)


def files(root):
    """The tracked files that are checked, relative to `root`."""
    names = subprocess.run(['git', '-C', root, 'ls-files', '-z'], capture_output=True, check=True,
                           text=True).stdout.split('\0')
    return [name for name in names if name.endswith(SUFFIXES) and name not in EXEMPT]


def main(root):
    status = 0
    for name in files(root):
        with open(os.path.join(root, name), encoding='utf-8') as file:
            for line, phrase, advice in faults(file.read()):
                print('%s:%d: "%s"; write %s' % (name, line, phrase, advice))
                status = 1
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else '.'))
