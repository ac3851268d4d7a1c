"""Snapshots: whatever is written can be read, and what cannot be read is refused."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from google.protobuf import text_format

import caffe
from caffe.proto import caffe_pb2

caffe.set_device('cpu')
DATA = ('layer { name: "data" type: "DummyData" top: "d" top: "t" dummy_data_param { '
        'shape { dim: 4 dim: 3 } shape { dim: 4 dim: 2 } data_filler { type: "gaussian" } '
        'data_filler { type: "constant" value: 1 } } } ')


def net_text(names=('ip', 'ip2')):
    """Inner products with these names, with Dropout of the same name behind each."""
    text, bottom = DATA, 'd'
    for i, name in enumerate(names):
        text += ('layer { name: "%s" type: "InnerProduct" bottom: "%s" top: "b%d" '
                 'inner_product_param { num_output: 2 weight_filler { type: "xavier" } } } '
                 'layer { name: "%s" type: "Dropout" bottom: "b%d" top: "b%d" } '
                 % (name, bottom, i, name + '_drop' if name else '', i, i))
        bottom = 'b%d' % i
    return text + 'layer { name: "loss" type: "EuclideanLoss" bottom: "%s" bottom: "t" top: "l" }' \
        % bottom


def make(prefix, seed=1, text=None, **more):
    settings = dict(dict(base_lr=0.1, momentum=0.9, lr_policy='fixed', max_iter=100,
                         random_seed=seed, snapshot_prefix=str(prefix)), **more)
    parameter = caffe_pb2.SolverParameter(**settings)
    text_format.Parse(text or net_text(), parameter.net_param)
    return caffe.get_solver(parameter)


def weights(solver):
    return [blob.data.copy() for layer in solver.net.layers for blob in layer.blobs]


def same(one, two):
    return len(one) == len(two) and all(np.array_equal(a, b) for a, b in zip(one, two))


FORMATS = [caffe_pb2.SolverParameter.BINARYPROTO, caffe_pb2.SolverParameter.HDF5]
PREFIXES = ['s', 'runs,lr=0.1/s', ' s', 's ', ',', 'a%d%s', 'ü/ä', "quote's", 'a\nb', '-snapshot',
            's.h5', 's.caffemodel', 'x_iter_3', '...', 'tail,']
NAMES = [('a', 'b'), ('', 'b'), ('', ''), ('.', 'b'), ('..', 'b'), ('x//y', 'x/y'), ('a', 'a/0'),
         ('a', 'a/2'), ('a', 'a/00'), ('a/b', 'a'), ('0', '1'), ('a', 'a'), ('a,b', ' a'),
         ('/', 'b'), ('a/', 'b'), ('data', 'diff'), ('ä', 'b\\n'), ('a/./b', 'b'), ('cortado', 'b')]


def restores(prefix, text, form):
    """Whether a snapshot comes back; a solver that would write one that does not is refused."""
    more = dict(text=text, snapshot_format=form)
    try:
        solver = make(prefix, snapshot=2, **more)
    except RuntimeError as error:
        assert 'could not be read back' in str(error)
        return False
    solver.step(2)
    state = '%s_iter_2.solverstate%s' % (prefix, '.h5' if form == FORMATS[1] else '')
    want = weights(solver)
    other = make(prefix, seed=2, **more)
    other.restore(state)
    assert other.iter == 2 and same(weights(other), want)
    solver.step(2)
    other.step(2)
    assert same(weights(other), weights(solver))  # history, seeds and positions, too
    return True


@pytest.mark.parametrize('form', FORMATS)
def test_whatever_is_written_can_be_read(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    for prefix in PREFIXES:
        os.makedirs(os.path.dirname(prefix) or '.', exist_ok=True)
        assert restores(prefix, net_text(), form), prefix
    read = [names for names in NAMES if restores('names', net_text(names), form)]
    if form == FORMATS[0]:
        assert read == NAMES
    else:
        assert [names for names in NAMES if names not in read] == [
            ('', 'b'), ('', ''), ('.', 'b'), ('x//y', 'x/y'), ('a', 'a/0'), ('a', 'a'),
            ('/', 'b'), ('a/', 'b'), ('a/./b', 'b')]


def test_solve_refuses_such_names_before_it_trains(tmp_path):
    solver = make(tmp_path / 's', text=net_text(('', 'b')), snapshot_format=FORMATS[1], max_iter=3)
    with pytest.raises(RuntimeError, match='could not be read back: .*has no name'):
        solver.solve()
    assert solver.iter == 0


@pytest.mark.parametrize('form', FORMATS)
def test_a_state_with_the_weights_of_another_is_refused(tmp_path, form):
    end = '.h5' if form == FORMATS[1] else ''
    one, two = (make(tmp_path / 's', seed, snapshot_format=form) for seed in (1, 2))
    one.step(3)
    two.step(3)
    state = one.snapshot()
    assert state == str(tmp_path / 's_iter_3.solverstate') + end
    shutil.copy(state, tmp_path / 'kept')
    two.snapshot()
    shutil.copy(tmp_path / 'kept', state)
    with pytest.raises(RuntimeError, match='were not written together.*-weights'):
        make(tmp_path / 's', snapshot_format=form).restore(state)
    # It does not matter which training wrote weights that are equal.
    again = make(tmp_path / 's', 1, snapshot_format=form)
    again.step(3)
    again.snapshot()
    shutil.copy(tmp_path / 'kept', state)
    make(tmp_path / 's', snapshot_format=form).restore(state)


@pytest.mark.parametrize('form', FORMATS)
def test_the_weights_next_to_the_state_come_first(tmp_path, form):
    backup = tmp_path / 'backup'
    backup.mkdir()
    end = '.h5' if form == FORMATS[1] else ''
    one, two = (make(tmp_path / 's', seed, snapshot_format=form) for seed in (1, 2))
    one.step(3)
    two.step(3)
    one.snapshot()
    for name in ('s_iter_3.solverstate', 's_iter_3.caffemodel'):
        shutil.copy(tmp_path / (name + end), backup)
    two.snapshot()
    solver = make(tmp_path / 's', seed=3, snapshot_format=form)
    solver.restore(str(backup / 's_iter_3.solverstate') + end)
    assert same(weights(solver), weights(one))
    os.remove(str(backup / 's_iter_3.caffemodel') + end)  # only the stored path is left: of `two`
    with pytest.raises(RuntimeError, match='were not written together'):
        solver.restore(str(backup / 's_iter_3.solverstate') + end)


def test_states_without_an_identity_are_read(tmp_path):
    """Those of BVLC Caffe and of earlier versions."""
    solver = make(tmp_path / 's')
    solver.step(2)
    path = solver.snapshot()
    state, net = caffe_pb2.SolverState(), caffe_pb2.NetParameter()
    model = tmp_path / 's_iter_2.caffemodel'
    with open(path, 'rb') as file:
        state.ParseFromString(file.read())
    net.ParseFromString(model.read_bytes())
    assert state.weights_id == net.weights_id != ''
    state.ClearField('weights_id')
    with open(path, 'wb') as file:
        file.write(state.SerializeToString())
    make(tmp_path / 's', seed=2).restore(path)
    net.ClearField('weights_id')
    model.write_bytes(net.SerializeToString())
    other = make(tmp_path / 's', seed=2)
    other.restore(path)
    assert same(weights(other), weights(solver))


def damaged(path, change, state_too):
    """The solverstate, or its caffemodel, with a change."""
    name = path if state_too else path.replace('.solverstate', '.caffemodel')
    message = caffe_pb2.SolverState() if state_too else caffe_pb2.NetParameter()
    with open(name, 'rb') as file:
        message.ParseFromString(file.read())
    change(message)
    with open(name, 'wb') as file:
        file.write(message.SerializeToString())


@pytest.mark.parametrize('state_too, change', [
    (True, lambda state: state.history[-1].ClearField('data')),
    (True, lambda state: state.history[0].data.append(1)),
    (True, lambda state: state.history[0].shape.dim.append(7)),
    (True, lambda state: state.history.add()),
    (True, lambda state: state.net_state[0].layer[2].value.append(3)),
    (True, lambda state: setattr(state, 'weights_id', 'another')),
    (True, lambda state: setattr(state, 'learned_net', 'missing.caffemodel')),
    (False, lambda net: net.layer[1].blobs[1].ClearField('data')),
    (False, lambda net: setattr(net.layer[3], 'name', 'renamed')),
    (False, lambda net: net.layer[3].blobs.pop())])
def test_a_refused_restore_changes_nothing(tmp_path, state_too, change):
    source = make(tmp_path / 's')
    source.step(3)
    path = source.snapshot()
    damaged(path, change, state_too)
    solver, control = make(tmp_path / 'other', seed=2), make(tmp_path / 'other', seed=2)
    solver.step(1)
    control.step(1)
    with pytest.raises(RuntimeError):
        solver.restore(path)
    assert solver.iter == 1 and same(weights(solver), weights(control))
    solver.step(2)
    control.step(2)
    assert same(weights(solver), weights(control))  # history, seeds and positions are the same


class SmallDisk:
    """A limit on the size of files stands for a full disk."""

    def __init__(self, size):
        self.size = size

    def __enter__(self):
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, self.before[1]))

    def __exit__(self, *error):
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)
        signal.signal(signal.SIGXFSZ, self.handler)


WIDE = net_text(('ip',)).replace('num_output: 2', 'num_output: 2 axis: 1').replace(
    'dim: 4 dim: 3', 'dim: 4 dim: 900')


@pytest.mark.parametrize('form', FORMATS)
def test_a_full_disk_is_a_warning_and_the_next_snapshot_is_tried(tmp_path, capfd, form):
    """The weights fit and the state, with two histories, does not."""
    settings = dict(text=WIDE, type='Adam', snapshot=2, max_iter=6, snapshot_format=form)
    end = '.h5' if form == FORMATS[1] else ''
    solver = make(tmp_path / 's', **settings)
    solver.step(2)
    before = sorted(os.listdir(tmp_path))
    capfd.readouterr()
    with SmallDisk(13000 if end else 9000):
        solver.step(2)
    said = capfd.readouterr().err
    assert 'Iteration 4: training continues without a snapshot' in said
    assert "To resume from it: solver.solve('%s_iter_2.solverstate%s')" % (tmp_path / 's', end) \
        in said
    assert sorted(os.listdir(tmp_path)) == before  # no half of a snapshot, no temporary file
    solver.solve()
    assert 's_iter_6.caffemodel' + end in os.listdir(tmp_path)
    # The last one is an error, and it is tried once more before.
    solver = make(tmp_path / 's', **settings)
    solver.restore(str(tmp_path / 's_iter_2.solverstate') + end)
    os.remove(str(tmp_path / 's_iter_6.solverstate') + end)
    with SmallDisk(1000), pytest.raises(RuntimeError, match=r'the snapshot of iteration 6 was not '
                                        r'written: .*File too large.*To resume from it: .*s_iter_2'):
        solver.solve()
    assert solver.iter == 6
    solver.snapshot()


def test_left_over_files_of_processes_that_ended_are_removed(tmp_path):
    script = '''
import sys
sys.path[:0] = %r
import os, signal
import caffe
from snapshot_test import make
solver = make(sys.argv[1], max_iter=10)
solver.step(1)
os.mkfifo(sys.argv[1] + '_iter_1.solverstate')  # its writer waits for a reader
open(sys.argv[1] + 'ready', 'w').close()
solver.snapshot()
''' % ([os.path.dirname(os.path.abspath(__file__))] + sys.path,)
    prefix = str(tmp_path / 's')
    process = subprocess.Popen([sys.executable, '-c', script, prefix])

    def leftovers():
        return [name for name in os.listdir(tmp_path) if '.tmp.' in name]

    end = time.time() + 60
    while not leftovers() and time.time() < end and process.poll() is None:
        time.sleep(0.02)
    left, = leftovers()
    assert left.startswith('s_iter_1.caffemodel.tmp.')
    # Another process that writes here leaves the file of one that runs.
    write = [sys.executable, '-c', 'import sys; sys.path[:0] = %r\n'
             'import caffe; from weights_test import make, inner\n'
             'make(inner("ip", "d")).save(sys.argv[1])'
             % ([os.path.dirname(os.path.abspath(__file__))] + sys.path,), prefix + 'other']
    assert subprocess.run(write).returncode == 0 and leftovers() == [left]
    process.kill()
    process.wait()
    host, number = left.split('.')[-3:-1]
    others = [left.replace(host, 'ffffffff' if host != 'ffffffff' else '00000000'),
              left.replace(number, str(os.getpid())), 's.tmp.1', 'mine.tmp.txt']
    for name in others:
        (tmp_path / name).touch()
    assert subprocess.run(write).returncode == 0
    assert not (tmp_path / left).exists()
    assert all((tmp_path / name).exists() for name in others)


PRELUDE = '''
import sys
sys.path[:0] = %r
import os, signal, threading, time
import caffe
from snapshot_test import make
caffe.set_logging_disabled()
solver = make(sys.argv[1], max_iter=10 ** 8)
''' % ([os.path.dirname(os.path.abspath(__file__))] + sys.path,)


def run(tmp_path, code, signals, before=None):
    """Runs a script that prints ready; sends signals; gives its status and outputs."""
    process = subprocess.Popen([sys.executable, '-c', PRELUDE + code, str(tmp_path / 's')],
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=before)
    try:
        assert process.stdout.readline() == 'ready\n', process.stderr.read()
        for one in signals:
            time.sleep(0.1)
            process.send_signal(one)
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, said


def states(tmp_path):
    return [name for name in os.listdir(tmp_path) if name.endswith('.solverstate')]


@pytest.mark.parametrize('call', ['solver.step(10 ** 8)', 'solver.solve()'])
def test_sigterm_writes_a_snapshot_and_ends_the_process(tmp_path, call):
    status, out, said = run(tmp_path, '''
print('ready', flush=True)
try:
    %s
finally:
    print('cleaned up', solver.iter)
''' % call, [signal.SIGTERM])
    assert status == 143 and out.startswith('cleaned up ')
    state, = states(tmp_path)
    assert state == 's_iter_%s.solverstate' % out.split()[-1]
    assert "to resume: solver.solve('%s')" % (tmp_path / state) in said
    solver = make(tmp_path / 's')
    solver.restore(tmp_path / state)


def test_sigterm_in_another_thread_ends_the_process(tmp_path):
    status, _, said = run(tmp_path, '''
thread = threading.Thread(target=lambda: solver.step(10 ** 8))
thread.start()
print('ready', flush=True)
thread.join()
''', [signal.SIGTERM])
    assert status == -signal.SIGTERM and 'to resume' in said
    assert len(states(tmp_path)) == 1


def test_sighup_writes_a_snapshot_and_training_continues(tmp_path):
    status, out, _ = run(tmp_path, "print('ready', flush=True)\nsolver.step(10 ** 8)",
                         [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM])
    assert status == 143 and len(states(tmp_path)) == 3


def test_ignored_signals_stay_ignored(tmp_path):
    """As nohup starts a program."""
    status, _, _ = run(tmp_path, "print('ready', flush=True)\nsolver.step(10 ** 8)",
                       [signal.SIGHUP, signal.SIGTERM],
                       before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert status == 143 and len(states(tmp_path)) == 1


def test_handlers_of_the_script_are_used(tmp_path):
    status, out, _ = run(tmp_path, '''
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append('mine'))
solver.add_callback(lambda: None if not seen else sys.exit(7), lambda: None)
print('ready', flush=True)
solver.step(10 ** 8)
''', [signal.SIGTERM])
    assert status == 7 and states(tmp_path) == []


def test_outside_of_training_signals_do_what_they_did(tmp_path):
    status, _, _ = run(tmp_path, "solver.step(1)\nprint('ready', flush=True)\ntime.sleep(60)",
                       [signal.SIGTERM])
    assert status == -signal.SIGTERM and states(tmp_path) == []


@pytest.mark.parametrize('more, fault', [
    (dict(base_lr=-0.5), 'base_lr is -0.5'), (dict(base_lr=float('nan')), 'base_lr is nan'),
    (dict(base_lr=float('inf')), 'base_lr is inf'), (dict(lr_policy=''), 'lr_policy is not set'),
    (dict(lr_policy='Fixd'), 'Unknown learning rate policy: Fixd; did you mean fixed?'),
    (dict(type='adam'), 'Unknown solver type: adam; did you mean Adam?')])
def test_settings_that_cannot_train_are_errors(tmp_path, more, fault):
    with pytest.raises(RuntimeError) as error:
        make(tmp_path / 's', **more)
    assert fault in str(error.value)


def test_a_rate_of_zero_is_a_warning(tmp_path, capfd):
    make(tmp_path / 's', base_lr=0)
    assert 'base_lr is 0: training will not change' in capfd.readouterr().err
    parameter = caffe_pb2.SolverParameter(lr_policy='fixed')
    text_format.Parse(net_text(), parameter.net_param)
    caffe.get_solver(parameter)
    assert 'base_lr is not set' in capfd.readouterr().err


def test_a_seed_of_minus_one_is_none(tmp_path):
    found = []
    for _ in range(2):
        caffe.set_random_seed(5)
        found.append(weights(make(tmp_path / 's', seed=-1)))
    assert same(*found)
