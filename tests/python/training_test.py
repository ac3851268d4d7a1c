"""Training from Python: the progress bar of terminals, Ctrl-C, rates."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import caffe
from nets import feed, settings, small_net, write

TESTS = os.path.dirname(os.path.abspath(__file__))
PRELUDE = '''
import sys
sys.path[:0] = %r
import time
import caffe
from nets import feed
caffe.set_device('cpu')
caffe.set_logging_disabled()
solver = caffe.get_solver(sys.argv[1])
feed(solver)
''' % ([TESTS] + sys.path,)


@pytest.fixture
def solver(tmp_path):
    caffe.set_device('cpu')
    made = caffe.get_solver(settings(tmp_path))
    feed(made)
    return made


def start(tmp_path, code, stderr=subprocess.PIPE, **more):
    more = dict(dict(display=0, test_interval=0, test_iter=[], max_iter=10 ** 8), **more)
    path = write(tmp_path, settings(tmp_path, **more), 'solver.prototxt')
    return subprocess.Popen([sys.executable, '-c', PRELUDE + code, path], stdout=subprocess.PIPE,
                            stderr=stderr, text=stderr is subprocess.PIPE,
                            env=dict(os.environ, TERM='xterm'))


def interrupt(process, after=1.0):
    """Sends Ctrl-C after the process printed 'ready'; gives what it printed."""
    assert process.stdout.readline() == 'ready\n'
    time.sleep(after)
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=60)
    finally:
        process.kill()


def terminal_output(tmp_path, code, term='xterm', **more):
    """What a script shows on a terminal."""
    leader, follower = pty.openpty()
    process = start(tmp_path, code, stderr=follower, **more)
    os.close(follower)
    shown = b''
    while True:
        if not select.select([leader], [], [], 60)[0]:
            process.kill()
            pytest.fail('the script hangs: %r' % shown)
        try:
            part = os.read(leader, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(leader)
    process.stdout.close()
    assert process.wait(60) == 0, shown
    return shown.decode()


BAR = r'\[=*>? *\] +\d+%%  \d+/%s  [\d.]+ it/s  [\d.]+ img/s  ETA \d+:\d\d:\d\d\x1b\[K[\r\n]'
SLOW = 'solver.add_callback(lambda: time.sleep(0.02), lambda: None)\n'


@pytest.mark.parametrize('call, last', [('solver.step(60)', 60), ('solver.solve()', 50),
                                        ('solver.step(10); solver.step(50)', 60)])
def test_a_terminal_shows_progress(tmp_path, call, last):
    shown = terminal_output(tmp_path, SLOW + call, max_iter=50)
    assert len(re.findall(BAR % last, shown)) >= 3
    assert shown.endswith('\x1b[K')  # and takes it away


def test_tests_show_their_batches(tmp_path):
    shown = terminal_output(tmp_path, SLOW + 'solver.step(60)', test_iter=[20000], test_interval=50,
                            test_initialization=False)
    assert re.search(r'50/60  testing \d+/20000', shown)


@pytest.mark.parametrize('code', ['for _ in range(60): solver.step(1)', 'solver.step(1)',
                                  'solver.step(60, progress=False)'])
def test_short_steps_show_none(tmp_path, code):
    assert 'it/s' not in terminal_output(tmp_path, SLOW + code)


def test_what_is_no_terminal_shows_none_unless_it_is_asked_for(tmp_path):
    process = start(tmp_path, SLOW + 'solver.step(60)')
    assert process.communicate(timeout=60) == ('', '')
    process = start(tmp_path, SLOW + 'solver.step(60, progress=True)')
    assert re.search(BAR % 60, process.communicate(timeout=60)[1])


def test_progress_is_true_false_or_none(solver):
    for call in (lambda: solver.step(1, progress='yes'), lambda: solver.solve(progress=1)):
        with pytest.raises(TypeError, match='progress is .* not True, False or None'):
            call()


@pytest.mark.parametrize('call', ['solver.step(10 ** 8)', 'solver.solve()',
                                  'while True: solver.step(3)'])
def test_control_c_writes_a_snapshot_and_says_how_to_resume(tmp_path, call):
    process = start(tmp_path, '''
print('ready', flush=True)
try:
    %s
except KeyboardInterrupt:
    print(solver.iter, float(solver.net.params['ip'][1].data[0]))
''' % call)
    out, said = interrupt(process)
    iteration, weight = out.split()
    state = '%s_iter_%s.solverstate' % (tmp_path / 'model', iteration)
    assert int(iteration) > 0 and os.path.exists(state)
    assert ("training stopped at iteration %s; to resume: solver.solve('%s'), or "
            "solver.restore('%s') and solver.step(n)\n" % (iteration, state, state)) in said
    caffe.set_device('cpu')
    again = caffe.get_solver(settings(tmp_path, max_iter=int(iteration) + 1))
    eval(re.search(r"or (solver\.restore\('.*?'\))", said).group(1), {'solver': again})
    assert again.iter == int(iteration)
    assert float(again.net.params['ip'][1].data[0]) == pytest.approx(float(weight), rel=1e-6)


def test_an_interrupted_run_that_is_resumed_equals_an_uninterrupted_one(tmp_path):
    process = start(tmp_path, 'print("ready", flush=True)\nsolver.step(10 ** 8)')
    _, said = interrupt(process, after=0.5)
    assert 'KeyboardInterrupt' in said and process.returncode != 0
    iteration = int(re.search(r'stopped at iteration (\d+)', said).group(1))
    caffe.set_device('cpu')
    more = dict(display=0, test_interval=0, test_iter=[], max_iter=10 ** 8)
    results = []
    for resumes in (True, False):
        made = caffe.get_solver(settings(tmp_path, **more))
        feed(made)
        if resumes:
            made.restore('%s_iter_%d.solverstate' % (tmp_path / 'model', iteration))
        made.step(iteration + 5 - made.iter)
        results.append(made.net.params['ip'][0].data.copy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize('prefix', ['', '/nowhere/at/all/model'])
def test_control_c_says_why_there_is_no_snapshot(tmp_path, prefix):
    code = '''
print('ready', flush=True)
try:
    solver.step(10 ** 8)
except KeyboardInterrupt:
    print('stopped', solver.iter)
'''
    message = settings(tmp_path, display=0, test_interval=0, test_iter=[])
    message.snapshot_prefix = prefix
    if not prefix:  # a file that names none has its own name as prefix, a message has none
        code = """
from google.protobuf.text_format import Parse
from caffe.proto import caffe_pb2
with open(sys.argv[1]) as file:
    message = Parse(file.read(), caffe_pb2.SolverParameter())
message.ClearField('snapshot_prefix')
solver = caffe.get_solver(message)
feed(solver)
""" + code
    path = write(tmp_path, message, 'other.prototxt')
    process = subprocess.Popen([sys.executable, '-c', PRELUDE + code, path], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, said = interrupt(process)
    assert out.startswith('stopped ') and process.returncode == 0
    assert re.search(r'training stopped at iteration \d+ without a snapshot: .*%s'
                     % (prefix or 'snapshot_prefix is not set'), said)
    assert not [name for name in os.listdir(tmp_path) if name.startswith('model')]


def test_a_second_control_c_ends_at_once(tmp_path):
    # One iteration takes minutes here.
    process = start(tmp_path, '''
import os, signal, threading
def send():
    for _ in range(2):
        time.sleep(0.4)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=send).start()
try:
    solver.step(3)
except KeyboardInterrupt:
    print('stopped', solver.iter)
''', iter_size=10 ** 6)
    out, said = process.communicate(timeout=60)
    assert out == 'stopped 0\n' and process.returncode == 0 and 'iteration' not in said
    assert not [name for name in os.listdir(tmp_path) if 'iter' in name]


def test_control_c_in_a_callback_keeps_the_iterations_before(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, display=0, test_interval=0, test_iter=[]))
    feed(solver)

    def fail():
        if solver.iter == 4:
            raise KeyboardInterrupt

    solver.add_callback(lambda: None, fail)
    with pytest.raises(KeyboardInterrupt):
        solver.step(10)
    assert solver.iter == 4 and (tmp_path / 'model_iter_4.solverstate').exists()
    with pytest.raises(KeyboardInterrupt):
        solver.solve()


def test_a_solve_that_writes_its_last_snapshot_writes_it_once(tmp_path):
    process = start(tmp_path, '''
caffe.set_logging_disabled(False)
print('ready', flush=True)
solver.solve()
''', snapshot_after_train=True)
    _, said = interrupt(process)
    assert said.count('Snapshotting to binary proto file') == 1
    assert said.count('to resume: solver.solve(') == 1


def test_other_errors_stay_what_they_are(solver):
    def fail():
        raise ZeroDivisionError('by a callback')

    solver.add_callback(fail, lambda: None)
    with pytest.raises(ZeroDivisionError):
        solver.step(1)


def test_a_number_of_iterations(solver):
    assert solver.step(0) == 0.0 and solver.iter == 0
    with pytest.raises(ValueError, match='step: -1 iterations; give 0 or more'):
        solver.step(-1)
    for wrong, shown in (('3', r"'3' \(str\)"), (1.5, r'1\.5 \(float\)'), (None, 'None')):
        with pytest.raises(TypeError, match='the number of iterations is ' + shown):
            solver.step(wrong)
    assert solver.step(np.int64(2)) > 0 and solver.iter == 2


def test_the_rate_can_be_set(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, lr_policy='step', gamma=0.5, stepsize=2,
                                       base_lr=0.1, momentum=0, weight_decay=0))
    feed(solver)
    solver.step(3)
    assert solver.lr == pytest.approx(0.05)
    solver.lr = 0.2
    assert solver.lr == pytest.approx(0.2) and solver.param.base_lr == pytest.approx(0.4)
    weights = solver.net.params['ip'][1]
    before, gradients = weights.data.copy(), []
    solver.add_callback(lambda: None, lambda: gradients.append(weights.diff.copy()))
    solver.step(1)
    np.testing.assert_allclose(before - weights.data, 0.2 * gradients[0], rtol=1e-3, atol=1e-6)
    assert solver.lr == pytest.approx(0.1)  # the policy goes on
    solver.lr = 0
    assert solver.lr == 0
    solver.lr = 0.3
    assert solver.lr == pytest.approx(0.3)
    for wrong in (-1, float('nan'), float('inf')):
        with pytest.raises(ValueError, match='a learning rate is 0 or more'):
            solver.lr = wrong


def test_a_rate_that_the_policy_makes_zero(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, lr_policy='poly', power=1, max_iter=2))
    feed(solver)
    solver.step(2)
    with pytest.raises(ValueError, match=r'policy poly makes the rate 0 .*solver\.param'):
        solver.lr = 0.1
