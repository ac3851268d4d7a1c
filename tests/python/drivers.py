"""Runs tools/driver_test.sh for the tests of other drivers of OpenCL than PoCL."""
import os
import re
import subprocess

import pytest

from documents import ROOT

TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
SHIM = os.path.join(ROOT, 'build', 'tests', 'libopencl_shim.so')

needs_build = pytest.mark.skipif(
    not (os.path.exists(TOOL) and os.path.exists(SHIM)) or 'ASAN_OPTIONS' in os.environ,
    reason='no build/tools/caffe, no build/tests/libopencl_shim.so, or a sanitizer, which is '
           'preloaded, too')


def run(driver, folder, steps, **variables):
    """The result of these steps of driver_test.sh; skips the test if the driver is not there."""
    result = subprocess.run([os.path.join(ROOT, 'tools', 'driver_test.sh'), driver, str(folder)],
                            env=dict(os.environ, DRIVER_STEPS=steps, **variables),
                            capture_output=True, text=True, timeout=1500)
    if result.returncode == 77:
        pytest.skip(result.stderr.strip())
    return result


def passed_rows(driver, folder, steps, **variables):
    """How many rows of the self-test passed; all steps have to."""
    result = run(driver, folder, steps, **variables)
    logs = ''.join(path.read_text()[-3000:] for path in sorted(folder.glob('*.log')))
    assert result.returncode == 0, result.stdout + result.stderr + logs
    assert set(re.findall(r'^(\w+) +pass', result.stdout, re.M)) >= set(steps.split())
    return int(re.search(r'\n(\d+) of \1 passed', (folder / 'self_test.log').read_text()).group(1))
