"""tools/benchmark/peer_cells.py: runs of nets.py become cells of caffe benchmark."""
import json
import os
import subprocess
import sys

import pytest

from documents import ROOT

PROGRAM = os.path.join(ROOT, 'tools', 'benchmark', 'peer_cells.py')
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')


def write_run(path, **more):
    run = dict(device='opencl:0', device_name='A GPU', versions={'PyTorch': '2.11.0+cu128'}, cases=[
        dict(work='forward', model='caffenet', type='half', batch=512, faults=[],
             sides={'cortado': dict(milliseconds=[1.0, 2.0, 9.0], mib=10),
                    'torch-channels-last': dict(milliseconds=[3.0, 5.0, 4.0], mib=1.5)}),
        dict(work='forward-backward', model='lenet', type='int8', batch=1, faults=[],
             sides={'torch': dict(skipped='its integers are not measured')}),
        dict(work='train', model='lenet', type='float', batch=1, faults=[],
             sides={'torch': dict(milliseconds=[1.0])})])
    run.update(more)
    path.write_text(json.dumps(run))
    return str(path)


def cells_of(*arguments):
    text = subprocess.run([sys.executable, PROGRAM, *arguments], check=True, capture_output=True,
                          text=True).stdout
    return json.loads(text)['cells']


def test_peers_of_a_run_become_cells(tmp_path):
    first, second = cells_of(write_run(tmp_path / 'run.json'))
    assert first == dict(net='caffenet', name='', framework='PyTorch 2.11.0 channels-last', type='half',
                         device='cuda:0', device_name='A GPU', batch=512, train=False,
                         milliseconds=4.0, fastest=3.0, samples=3, memory=3 << 19)
    assert second['train'] and second['error'] == 'its integers are not measured'
    assert 'milliseconds' not in second and second['framework'] == 'PyTorch 2.11.0'


def test_trees_are_cells_if_they_are_asked_for(tmp_path):
    first = cells_of(write_run(tmp_path / 'run.json'), '--all')[0]
    assert first['framework'] == 'cortado' and first['device'] == 'opencl:0'
    assert first['milliseconds'] == 2.0


@pytest.mark.skipif(not os.path.exists(TOOL), reason='the command caffe is not built')
def test_the_command_reads_the_cells(tmp_path):
    path = str(tmp_path / 'cells.json')
    subprocess.run([sys.executable, PROGRAM, write_run(tmp_path / 'run.json'), '--output', path],
                   check=True)
    run = subprocess.run([TOOL, 'benchmark', '-merge', path], check=True, capture_output=True,
                         text=True)
    assert '| A GPU (PyTorch 2.11.0 channels-last) | cuda:0 | 512 | - | 4 | - | - |' in run.stdout
    assert '* its integers are not measured: lenet on cuda:0, batch 1, int8' in run.stdout
