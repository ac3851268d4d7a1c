"""Several ranks: caffe train -gpu a,b; mpirun; caffe.train; processes of a script with caffe.NCCL."""
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import caffe
from caffe import layers as L
from caffe.proto import caffe_pb2
from cache_command_test import ROOT, TOOL, needs_tool
from replica_test import rows

MPIRUN = shutil.which('mpirun')


def built_with_mpi():
    if not os.path.exists(TOOL) or MPIRUN is None:
        return False
    return b'libmpi' in subprocess.run(['ldd', os.path.join(ROOT, 'build', 'libcaffe.so')],
                                       stdout=subprocess.PIPE).stdout


needs_mpi = pytest.mark.skipif(not built_with_mpi(), reason='built without MPI, or no mpirun')


def settings(folder, name='s', **more):
    net = caffe.NetSpec()
    net.data, net.label = L.HDF5Data(source=rows(folder, 24), batch_size=2, shuffle=True, ntop=2)
    net.ip = L.InnerProduct(net.data, num_output=3, weight_filler=dict(type='xavier'))
    net.loss = L.SoftmaxWithLoss(net.ip, net.label)
    values = dict(base_lr=0.001, momentum=0.9, lr_policy='fixed', random_seed=4, max_iter=8,
                  display=2, snapshot=4, snapshot_prefix=str(folder / name), test_interval=4,
                  test_iter=[3], net_param=net.to_proto())
    values.update(more)
    path = folder / (name + '.prototxt')
    path.write_text(str(caffe_pb2.SolverParameter(**values)))
    return str(path)


def weights(path):
    net = caffe_pb2.NetParameter()
    with open(path, 'rb') as file:
        net.ParseFromString(file.read())
    return [np.array(blob.data) for layer in net.layer for blob in layer.blobs]


def same(one, two):
    one, two = weights(one), weights(two)
    assert len(one) == len(two) == 2
    for a, b in zip(one, two):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def train(*arguments, ranks=0, **environment):
    """Runs caffe train; with `ranks` under mpirun. Returns the status and the log."""
    launcher = [MPIRUN, '--allow-run-as-root', '--oversubscribe', '-n', str(ranks)] if ranks else []
    done = subprocess.run(launcher + [TOOL, 'train'] + list(arguments), stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, text=True, timeout=240,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
    """The snapshots of one rank with the batches of two, and of three."""
    folder = tmp_path_factory.mktemp('alone')
    made = {}
    for count in (2, 3):
        status, log = train('-solver', settings(folder, 'alone%d' % count, iter_size=count), '-gpu',
                            'cpu')
        assert status == 0, log
        made[count] = str(folder / ('alone%d_iter_8' % count))
    return made


def outputs(log):
    """The values of the tests, and of the displays."""
    return [float(value) for value in re.findall(r'(?:Test|Train) net output #0: loss = (\S+)', log)]


@needs_tool
def test_devices_of_one_process(tmp_path, alone):
    for count in (2, 3):
        path = settings(tmp_path, 's%d' % count)
        status, log = train('-solver', path, '-gpu', ','.join(['cpu'] * count))
        assert status == 0, log
        same(str(tmp_path / ('s%d_iter_8.caffemodel' % count)), alone[count] + '.caffemodel')
        assert '%d ranks: an update is by %d items (batch size 2, iter_size 1)' % (
            count, 2 * count) in log
        # Rank 0 alone logs and writes.
        assert log.count('Optimization Done.') == 2 and log.count('Iteration 4, lr = ') == 1
        assert log.count('Snapshotting solver state') == 2
        assert len(outputs(log)) > 4


@needs_tool
def test_a_run_of_four_resumes_with_two_and_three(tmp_path):
    first = settings(tmp_path, max_iter=4)
    assert train('-solver', first, '-gpu', 'cpu,cpu,cpu,cpu')[0] == 0
    second = settings(tmp_path, max_iter=8)
    status, log = train('-solver', second, '-gpu', 'cpu,cpu', '-snapshot',
                        str(tmp_path / 's_iter_4.solverstate'))
    assert status == 0 and 'an update was by 8 items, and is by 4 from now on' in log, log
    third = settings(tmp_path, max_iter=12)
    status, log = train('-solver', third, '-gpu', 'cpu,cpu,cpu', '-snapshot',
                        str(tmp_path / 's_iter_8.solverstate'))
    assert status == 0 and 'an update was by 4 items, and is by 6 from now on' in log, log
    state = caffe_pb2.SolverState()
    state.ParseFromString((tmp_path / 's_iter_12.solverstate').read_bytes())
    assert state.iter == 12 and state.joint_batch == 6
    position = {layer.name: list(layer.value) for layer in state.net_state[0].layer}['data']
    assert position == [4 * (8 + 4 + 6)]


@needs_mpi
@pytest.mark.parametrize('ranks', [2, 3])
def test_processes_of_mpi(tmp_path, alone, ranks):
    status, log = train('-solver', settings(tmp_path), '-gpu', 'cpu', ranks=ranks)
    assert status == 0, log
    same(str(tmp_path / 's_iter_8.caffemodel'), alone[ranks] + '.caffemodel')
    assert log.count('Iteration 4, lr = ') == 1
    assert log.count('Snapshotting solver state') == 2


@needs_mpi
def test_processes_of_mpi_with_other_settings_are_told(tmp_path):
    one, two = settings(tmp_path, 'one'), settings(tmp_path, 'two', base_lr=0.25)
    script = 'exec %s train -gpu cpu -solver $([ $OMPI_COMM_WORLD_RANK = 1 ] && echo %s || echo %s)'
    done = subprocess.run([MPIRUN, '--allow-run-as-root', '--oversubscribe', '-n', '2', 'sh', '-c',
                           script % (TOOL, two, one)], stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode != 0
    assert 'rank 1 of 2' in done.stdout, done.stdout
    assert 'setting base_lr: 0.25; replica 0: setting base_lr: 0.001' in done.stdout
    assert 'Iteration 0' not in done.stdout


def children(process):
    """The processes of the ranks, in their order."""
    found = {}
    for entry in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/environ' % entry, 'rb') as file:
                text = file.read()
            with open('/proc/%s/cmdline' % entry, 'rb') as file:
                command = file.read()
        except OSError:
            continue
        rank = re.search(rb'OMPI_COMM_WORLD_RANK=(\d+)', text)
        if rank and command.startswith(TOOL.encode()) and process in command:
            found[int(rank.group(1))] = int(entry)
    return [found[rank] for rank in sorted(found)]


@needs_mpi
@pytest.mark.parametrize('how', [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_killed_or_stopped_ends_the_others(tmp_path, how):
    path = settings(tmp_path, max_iter=10 ** 8, snapshot=100, test_interval=0, test_iter=[])
    log = open(tmp_path / 'log', 'w+')
    process = subprocess.Popen([MPIRUN, '--allow-run-as-root', '--oversubscribe', '-n', '3', TOOL,
                                'train', '-gpu', 'cpu', '-solver', path], stderr=subprocess.STDOUT,
                               stdout=log)
    try:
        deadline = time.time() + 60
        while not (tmp_path / 's_iter_100.solverstate').exists():
            assert time.time() < deadline and process.poll() is None
            time.sleep(0.1)
        ranks = children(path.encode())
        assert len(ranks) == 3
        os.kill(ranks[1], how)
        begin = time.time()
        assert process.wait(timeout=60) != 0
        assert time.time() - begin < 30
    finally:
        process.kill()
        for rank in children(path.encode()):
            os.kill(rank, signal.SIGKILL)
    log.seek(0)
    text = log.read()
    if how == signal.SIGSTOP:
        assert re.search(r'rank 1 of 3 \(host \S+\) has not answered rank 0', text), text[-3000:]
        assert 's_iter_' in text[text.index('has not answered'):], text[-3000:]
    else:
        assert re.search(r'rank 1 with PID \d+ .* signal 9', text), text[-3000:]


def test_train_of_python(tmp_path):
    state = caffe.train(settings(tmp_path, test_interval=0, test_iter=[]), devices=['cpu', 'cpu'])
    assert state == str(tmp_path / 's_iter_8.solverstate')
    again = caffe.train(settings(tmp_path, max_iter=12, test_interval=0, test_iter=[]),
                        devices=['cpu', 'cpu', 'cpu'], snapshot=state)
    assert again == str(tmp_path / 's_iter_12.solverstate')
    with pytest.raises(ValueError, match='devices is empty'):
        caffe.train(settings(tmp_path), devices=[])
    with pytest.raises(RuntimeError, match='no_such'):
        caffe.train(settings(tmp_path), devices=['no_such'])


# As python/train.py of BVLC Caffe does it; but for the device.
SCRIPT = '''
import sys
sys.path[:0] = %r
from multiprocessing import Process
import caffe

def train(solver, snapshot, gpus):
    uid = caffe.NCCL.new_uid()
    caffe.init_log()
    caffe.log('Using devices %%s' %% str(gpus))
    procs = []
    for rank in range(len(gpus)):
        p = Process(target=solve, args=(solver, snapshot, gpus, uid, rank))
        p.daemon = True
        p.start()
        procs.append(p)
    for p in procs:
        p.join()
    sys.exit(max(abs(p.exitcode) for p in procs))

def solve(proto, snapshot, gpus, uid, rank):
    caffe.set_device(gpus[rank])
    caffe.set_solver_count(len(gpus))
    caffe.set_solver_rank(rank)
    caffe.set_multiprocess(True)
    solver = caffe.SGDSolver(proto)
    if snapshot and len(snapshot) != 0:
        solver.restore(snapshot)
    nccl = caffe.NCCL(solver, uid)
    nccl.bcast()
    solver.add_callback(nccl)
    if solver.param.layer_wise_reduce:
        solver.net.after_backward(nccl)
    FAULT
    solver.step(solver.param.max_iter)

if __name__ == '__main__':
    train(sys.argv[1], '', ['cpu'] * int(sys.argv[2]))
''' % (sys.path,)


def run_script(folder, path, ranks, fault=''):
    script = folder / 'train.py'
    script.write_text(SCRIPT.replace('FAULT', fault))
    return subprocess.run([sys.executable, str(script), path, str(ranks)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)


def test_processes_of_a_script(tmp_path, alone):
    for ranks in (2, 3):
        done = run_script(tmp_path, settings(tmp_path), ranks)
        assert done.returncode == 0, done.stdout
        same(str(tmp_path / 's_iter_8.caffemodel'), alone[ranks] + '.caffemodel')
        assert done.stdout.count('Iteration 4, lr = ') == 1


def test_a_process_of_a_script_that_ends_is_named(tmp_path):
    begin = time.time()
    done = run_script(tmp_path, settings(tmp_path), 3, 'import os; rank == 1 and os._exit(5)')
    assert done.returncode != 0 and time.time() - begin < 60
    assert re.search(r'rank 1 of 3: its process \d+ has ended', done.stdout), done.stdout
    done = run_script(tmp_path, settings(tmp_path), 2, 'if rank == 1: raise ValueError("no paper")')
    assert done.returncode != 0
    assert 'no paper' in done.stdout and 'rank 1 of 2: its process' in done.stdout, done.stdout


def test_members_of_nccl():
    uid = caffe.NCCL.new_uid()
    assert isinstance(uid, bytes) and uid != caffe.NCCL.new_uid() and b'\0' not in uid
    assert caffe.has_nccl()


@needs_tool
def test_the_program_that_measures_scaling(tmp_path):
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'tools', 'benchmark', 'scaling.py'),
                           '--solver', settings(tmp_path), '--devices', 'cpu,cpu', '--iterations',
                           '20', '--repetitions', '2', '--tool', TOOL], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    rows_of = [line for line in done.stdout.splitlines() if re.match(r'\| \d', line)]
    assert [row.split()[1] for row in rows_of] == ['1', '2'], done.stdout
    assert rows_of[0].endswith('| 1.00 |')
