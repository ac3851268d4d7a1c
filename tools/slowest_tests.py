#!/usr/bin/env python3
"""slowest_tests.py LOG RESULT.xml...: prints the ten slowest tests of a run.

LOG is ctest's LastTest.log with the output of GoogleTest, the others are pytest's --junitxml files.
"""
import re
import sys
from xml.etree import ElementTree

COUNT = 10


def of_ctest(text):
    """(seconds, name) of each GoogleTest case in the text of a log."""
    found = re.findall(r'^\[ +(?:OK|FAILED) +\] ([^\s,]+).*\((\d+) ms\)$', text, re.MULTILINE)
    return [(int(milliseconds) / 1000, name) for name, milliseconds in found]


def of_pytest(text):
    """(seconds, name) of each test in the text of a JUnit file."""
    return [(float(case.get('time')), '%s::%s' % (case.get('classname'), case.get('name')))
            for case in ElementTree.fromstring(text).iter('testcase')]


def main(paths):
    log, *results = paths
    with open(log, errors='replace') as file:
        tests = of_ctest(file.read())
    for path in results:
        with open(path) as file:
            tests += of_pytest(file.read())
    print('slowest tests:')
    for seconds, name in sorted(tests, reverse=True)[:COUNT]:
        print('%7.1f s  %s' % (seconds, name))


if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
