"""The demo, shortened: the net learns, and every result is written."""
import json
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.mark.parametrize('data_type', ['float', 'half', 'bfloat16', 'double', 'int16', 'int8'])
def test_the_digits_are_learned(tmp_path, data_type):
    run = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'examples', 'digits', 'digits.py'), '--devices', 'cpu',
         '--types', data_type, '--iterations', '300', '--output', str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert run.returncode == 0, run.stdout
    result, = json.loads((tmp_path / 'results.json').read_text())
    assert result['accuracy'] > 0.95
    assert result['memory'] > 0 and result['milliseconds_per_image'] > 0
    assert sum(map(sum, result['confusion'])) == 450 and len(result['losses']) == 300
    for name in ('loss.png', 'confusion.png'):
        assert (tmp_path / name).read_bytes().startswith(b'\x89PNG')
