"""tools/slowest_tests.py prints the tests that a run spent most time in."""
import subprocess
import sys

from conftest import ROOT


def test_tests_of_both_kinds_are_sorted_by_time(tmp_path):
    log = tmp_path / 'LastTest.log'
    log.write_text('[ RUN      ] NetTest.Loads\n[       OK ] NetTest.Loads (1500 ms)\n'
                   '[  FAILED  ] All/PoolTest.Max/cpu, where GetParam() = cpu float (2500 ms)\n'
                   + ''.join('[       OK ] Quick.Number%d (1 ms)\n' % i for i in range(10))
                   + '[----------] 12 tests from 3 test suites (4010 ms total)\n')
    results = tmp_path / 'python.xml'
    results.write_text('<testsuites><testsuite><testcase classname="net_test" name="test_a[x]" '
                       'time="2.000"/></testsuite></testsuites>')
    run = subprocess.run([sys.executable, '%s/tools/slowest_tests.py' % ROOT, log, results],
                         capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines[0] == 'slowest tests:' and len(lines) == 11
    assert [line.split() for line in lines[1:4]] == [['2.5', 's', 'All/PoolTest.Max/cpu'],
                                                     ['2.0', 's', 'net_test::test_a[x]'],
                                                     ['1.5', 's', 'NetTest.Loads']]
