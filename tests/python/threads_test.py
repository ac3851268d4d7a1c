"""One net used by several threads, and threads that are still at work when a script ends."""
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from nets import feed, settings

pytestmark = pytest.mark.serial

MODULE = __name__
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEVICES = [device.name for device in caffe.devices()]


def make(device='cpu', size=40):
    caffe.set_device(device)
    caffe.set_random_seed(1)
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[4, 50]))
    spec.ip = L.InnerProduct(spec.data, num_output=size, weight_filler=dict(type='xavier'))
    spec.prob = L.Softmax(spec.ip)
    return caffe.Net(spec.to_proto(), caffe.TEST)


def long_net():
    """A net whose forward takes long, and each of its layers, too."""
    caffe.set_device('cpu')
    spec = NetSpec()
    top = spec.data = L.Input(shape=dict(dim=[2500, 2500]))
    for _ in range(6):
        top = L.InnerProduct(top, num_output=2500,
                             weight_filler=dict(type='constant', value=0.001))
    spec.top = top
    return caffe.Net(spec.to_proto(), caffe.TEST)


def images(seed, count=4):
    return np.random.RandomState(seed).randn(count, 50).astype(np.float32)


def in_threads(*works, seconds=120):
    """Runs each in a thread of its own; raises what they raise, and if they do not end."""
    errors = []

    def run(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end = time.time() + seconds
    for thread in threads:
        thread.join(max(0, end - time.time()))
    assert not any(thread.is_alive() for thread in threads), 'threads wait for each other'
    if errors:
        raise errors[0]


class Workers(caffe.Layer):
    """y = 2 x, computed by threads of its own."""

    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        def work(row):
            top[0].data[row] = 2 * bottom[0].data[row]

        in_threads(*(lambda row=row: work(row) for row in range(bottom[0].shape[0])), seconds=20)

    def backward(self, top, propagate_down, bottom):
        pass


class Again(Workers):
    """y = x; its first forward runs the whole net from within."""

    net = None

    def forward(self, bottom, top):
        net, Again.net = Again.net, None
        if net is not None:
            net.forward()
        top[0].data[...] = bottom[0].data


def python_net(layer):
    caffe.set_device('cpu')
    spec = NetSpec()
    spec.data = L.Input(shape=dict(dim=[4, 50]))
    spec.out = L.Python(spec.data, module=MODULE, layer=layer)
    return caffe.Net(spec.to_proto(), caffe.TEST)


def run(code, *arguments):
    return subprocess.run([sys.executable, '-c', 'import sys; sys.path[:0] = %r\n' % sys.path + code,
                           *arguments], capture_output=True, text=True, timeout=240,
                          env=dict(os.environ, CAFFE_LOG='warning'))


@pytest.mark.parametrize('device', DEVICES)
def test_results_are_those_of_some_order(device):
    process = run('''
import threads_test as t, caffe, sys
net = t.make(sys.argv[1])
inputs = [t.images(seed, count=12) for seed in range(3)]
expected = [net.forward_all(data=data)['prob'] for data in inputs]
wrong = []

def work(i):
    caffe.set_device(sys.argv[1])
    for k in range(60):
        if (net.forward_all(data=inputs[i])['prob'] != expected[i]).any():
            wrong.append((i, k))

t.in_threads(*(lambda i=i: work(i) for i in range(3)))
print(wrong)
''', device)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split('\n')[0] == '[]'


@pytest.mark.parametrize('device', DEVICES)
def test_threads_with_streams_have_the_results_of_one(device):
    process = run('''
import threads_test as t, caffe, sys
inputs = [t.images(seed) for seed in range(2)]
nets = [t.make(sys.argv[1], size=40 + i) for i in range(2)]
expected = [net.forward(data=data)['prob'].copy() for net, data in zip(nets, inputs)]
wrong = []

def work(i):
    caffe.set_device(sys.argv[1])
    with caffe.Stream() as stream:
        assert stream.device.name == sys.argv[1]
        for k in range(40):
            if (nets[i].forward(data=inputs[i])['prob'] != expected[i]).any():
                wrong.append((i, k))
        # These results are read after the stream was left.
        nets[i].forward(data=-inputs[i])
        stream.synchronize()
    last[i] = nets[i].blobs['prob'].data.copy()

last = {}
t.in_threads(*(lambda i=i: work(i) for i in range(2)))
for net, data, i in zip(nets, inputs, range(2)):
    assert (net.forward(data=-data)['prob'] == last[i]).all()
print(wrong)
''', device)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split('\n')[0] == '[]'


def test_streams_are_left_in_reverse_order():
    first, second = caffe.Stream(), caffe.Stream()
    with first, second:
        pass
    first.__enter__()
    with pytest.raises(RuntimeError, match='did not enter last'):
        second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    with pytest.raises(RuntimeError, match='did not enter last'):
        first.__exit__(None, None, None)


@pytest.mark.parametrize('device', DEVICES)
def test_shapes_change_between_forwards(device):
    process = run('''
import threads_test as t, caffe, sys
net = t.make(sys.argv[1])

def forward():
    caffe.set_device(sys.argv[1])
    for k in range(200):
        net.forward()
        assert net.blobs['prob'].data.ndim == 2

def reshape():
    for k in range(200):
        net.blobs['data'].reshape(1 + k % 300, 50)
        net.reshape()

def look():
    for k in range(200):
        net.blobs['data'].data[...] = k
        net.params['ip'][0].data.sum()
        assert len(net.blobs['prob'].shape) == 2

t.in_threads(forward, reshape, look)
print('fine')
''', device)
    assert process.returncode == 0 and process.stdout == 'fine\n', process.stderr


def test_a_blob_is_not_read_while_a_thread_computes():
    net = long_net()
    reads, seconds = [], []

    def forward():
        caffe.set_device('cpu')
        begin = time.time()
        net.forward()
        seconds.append(time.time() - begin)

    def read():
        while not seconds:
            net.blobs['top'].data
            reads.append(time.time())

    begin = time.time()
    in_threads(forward, read)
    assert np.diff([begin, *reads, time.time()]).max() > 0.5 * seconds[0]


def test_other_calls_wait_too(tmp_path):
    net, other = make(), make()
    path = str(tmp_path / 'net.caffemodel')
    net.save(path)

    def repeat(call):
        for _ in range(30):
            call()

    in_threads(*(lambda call=call: repeat(call) for call in (
        net.forward, net.backward, net.clear_param_diffs, lambda: net.save(path + '2'),
        lambda: net.copy_from(path), lambda: net.share_with(other), lambda: other.share_with(net),
        other.forward)))


def test_a_thread_keeps_a_net_for_itself():
    net = make()
    done = threading.Event()

    def forward():
        caffe.set_device('cpu')
        net.forward()
        done.set()

    thread = threading.Thread(target=forward)
    with net.exclusive():
        net.forward()
        thread.start()
        assert not done.wait(0.3)
        with net.exclusive():
            net.reshape()
        assert not done.wait(0.1)
    thread.join(20)
    assert done.is_set()
    with pytest.raises(ZeroDivisionError):
        with net.exclusive():
            1 / 0
    in_threads(net.forward, seconds=20)


def test_none_of_six_clients_waits_long_for_a_small_net():
    """Without turns one thread takes the net again and again: others waited for half a second."""
    net = make()
    waits = [[] for _ in range(6)]
    end = time.time() + 2

    def client(times):
        caffe.set_device('cpu')
        while time.time() < end:
            begin = time.perf_counter()
            net.forward()
            times.append(time.perf_counter() - begin)

    in_threads(*(lambda times=times: client(times) for times in waits))
    # A test machine may stop the whole process for longer: one such stop delays each client once.
    assert sorted(sum(waits, []))[-len(waits) - 1] < 0.1
    counts = [len(times) for times in waits]
    assert min(counts) > max(counts) / 4, counts


def test_threads_take_turns():
    net = make(size=4000)
    stop, passes = threading.Event(), []

    def loop():
        caffe.set_device('cpu')
        while not stop.is_set():
            net.forward()
            passes.append(1)

    def count():
        caffe.set_device('cpu')
        while not passes:
            time.sleep(0.001)
        before = len(passes)
        for _ in range(20):
            net.forward()
            net.blobs['prob'].data
        between.append(len(passes) - before)
        stop.set()

    between = []
    in_threads(loop, count)
    assert 10 <= between[0] <= 60


def test_callbacks_use_the_net_that_runs():
    net = make()
    seen = []

    def callback(layer):
        seen.append(net.blobs['ip'].data.shape)
        with net.exclusive():
            net.params['ip'][0].data[0, 0] = layer

    net.before_forward(callback)

    def work():
        caffe.set_device('cpu')
        for _ in range(20):
            net.forward()

    in_threads(work, work)
    assert len(seen) == 2 * 20 * 3


def test_a_python_layer_runs_its_own_net():
    net = python_net('Again')
    Again.net = net

    def work():
        caffe.set_device('cpu')
        for _ in range(20):
            assert net.forward_all(data=images(0))['out'].tolist() == images(0).tolist()

    in_threads(work, work)
    assert Again.net is None


def test_a_python_layer_waits_for_its_own_threads():
    net = python_net('Workers')
    data = images(3)
    in_threads(lambda: np.testing.assert_array_equal(net.forward(data=data)['out'], 2 * data))


def test_waiting_ends_with_ctrl_c():
    process = run('''
import threads_test as t, caffe, os, signal, threading, time
net = t.make()
begun, end = threading.Event(), threading.Event()

def hold():
    with net.exclusive():
        begun.set()
        end.wait()

thread = threading.Thread(target=hold)
thread.start()
begun.wait()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.time()
try:
    net.forward()
except KeyboardInterrupt:
    print(time.time() - start < 10)
end.set()
thread.join()
net.forward()
print('fine')
''')
    assert process.stdout == 'True\nfine\n', process.stderr


def test_a_solver_lets_others_look_between_iterations(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, display=0, test_interval=10 ** 8,
                                       test_initialization=False))
    feed(solver)

    class Stop(Exception):
        pass

    stop = threading.Event()

    def start():
        if stop.is_set():
            raise Stop

    solver.add_callback(start, lambda: None)

    def train():
        caffe.set_device('cpu')
        with pytest.raises(Stop):
            solver.step(10 ** 8)

    def look():
        while solver.iter < 3:
            time.sleep(0.001)
        for _ in range(5):
            assert np.isfinite(solver.net.blobs['loss'].data).all()
            before = solver.iter
            solver.net.forward()
            assert solver.iter <= before + 1
        stop.set()

    in_threads(train, look)
    assert solver.iter > 3
    stop.clear()
    solver.step(1)


def test_a_solver_in_an_exclusive_block_lets_no_other_thread_in(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, display=0, test_interval=10 ** 8,
                                       test_initialization=False))
    feed(solver)
    at = []

    def forward():
        caffe.set_device('cpu')
        solver.net.forward()
        at.append(solver.iter)

    thread = threading.Thread(target=forward)
    with solver.net.exclusive():
        thread.start()
        time.sleep(0.1)
        solver.step(100)
        assert at == []
    thread.join(20)
    assert at == [100]


TRAINING = '''
import threads_test as t, caffe, os, pathlib, signal, sys, threading, time
caffe.set_device('cpu')
folder = pathlib.Path(sys.argv[1])
solver = caffe.get_solver(t.settings(folder, display=0, test_interval=10 ** 8,
                                     test_initialization=False))
t.feed(solver)
end = threading.Event()

def hold(signals):
    while solver.iter < 3:
        time.sleep(0.001)
    with solver.net.exclusive():
        for _ in range(signals):
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        end.wait(1 if signals == 1 else 60)
        print('snapshot' if list(folder.glob('*.solverstate')) else 'no snapshot')

def interrupted_by(signals):
    thread = threading.Thread(target=hold, args=(signals,))
    thread.start()
    try:
        solver.step(10 ** 8)
    except KeyboardInterrupt:
        print('interrupted')
    end.set()
    thread.join()
    print(len(list(folder.glob('*.solverstate'))), 'snapshots')
    solver.step(1)
'''


def test_a_solver_that_waits_for_a_thread_snapshots_after_ctrl_c(tmp_path):
    process = run(TRAINING + 'interrupted_by(1)', str(tmp_path))
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ['no snapshot', 'interrupted', '1 snapshots']


def test_a_second_ctrl_c_ends_a_solver_that_waits_for_a_thread(tmp_path):
    process = run(TRAINING + 'interrupted_by(2)', str(tmp_path))
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == ['interrupted', 'no snapshot', '0 snapshots']


@pytest.mark.parametrize('device', DEVICES)
@pytest.mark.parametrize('work', ['net.forward()', 'python.forward()', 'solver.step(10 ** 8)'])
def test_a_script_ends_while_a_thread_computes(device, work, tmp_path):
    drivers = {found.name: found.driver for found in caffe.devices()}
    driver = drivers.get(device, '')
    if 'solver' in work and 'PoCL' in driver and not driver.startswith('3.'):
        pytest.skip('the PoCL of Ubuntu 24.04 aborts where a process ends under training threads')
    process = run('''
import threads_test as t, caffe, pathlib, sys, threading, time
device, work, folder = sys.argv[1:]
net = t.make(device, size=500)
python = t.python_net('Slow')
if 'solver' in work:
    caffe.set_device(device)
    solver = caffe.get_solver(t.settings(pathlib.Path(folder), display=0, test_interval=10 ** 8,
                                         test_initialization=False))
    t.feed(solver)
    solver.step(1)
elif 'net' in work:
    net.forward()
# PoCL aborts where a process ends while a thread compiles: the lines above did.
work = compile(work, 'work', 'exec')

def loop():
    caffe.set_device(device)
    while True:
        exec(work)

for i in range(2):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.5)
''', device, work, str(tmp_path))
    assert process.returncode == 0 and process.stderr == '', process


def test_a_script_ends_before_a_thread_looks_for_ctrl_c():
    """The layers are so long that the interpreter has shut down when the thread asks for the GIL."""
    process = run('''
import threads_test as t, caffe, threading, time
net = t.long_net()

def loop():
    caffe.set_device('cpu')
    while True:
        net.forward()

threading.Thread(target=loop, daemon=True).start()
time.sleep(0.3)
''')
    assert process.returncode == 0 and process.stderr == '', process


def test_a_script_ends_soon_while_a_python_layer_waits():
    process = run('''
import threads_test as t, threading, time
net = t.python_net('Waits')
threading.Thread(target=net.forward, daemon=True).start()
t.Waits.begun.wait()
print(time.time())
''')
    assert process.returncode == 0 and process.stderr == '', process
    assert time.time() - float(process.stdout) < 2.5


class Waits(Workers):
    begun = threading.Event()

    def forward(self, bottom, top):
        Waits.begun.set()
        threading.Event().wait()


class Slow(Workers):
    def forward(self, bottom, top):
        for _ in range(1000):
            top[0].data[...] = bottom[0].data


WAITING = '''
import time
import numpy
import caffe
caffe.set_mode_cpu()
spec = caffe.NetSpec()
spec.data = caffe.layers.Input(shape=dict(dim=[64, 4096]))
spec.relu = caffe.layers.ReLU(spec.data)
net = caffe.Net(spec.to_proto(), caffe.TEST)
net.forward()
start = time.process_time()
for _ in range(40):
    net.forward()
    time.sleep(0.01)
print(time.process_time() - start)
'''


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason='there is one core')
def test_threads_that_wait_sleep_soon():
    """Processor time while nothing is computed."""
    def seconds(**variables):
        environment = {name: value for name, value in os.environ.items()
                       if name not in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')}
        environment.update(variables, OMP_NUM_THREADS='2', CAFFE_LOG='warning')
        code = 'import sys; sys.path[:0] = %r\n' % (sys.path,) + WAITING
        result = subprocess.run([sys.executable, '-c', code], env=environment, check=True,
                                capture_output=True, text=True, timeout=120)
        return float(result.stdout)

    assert seconds() < 0.5 * seconds(GOMP_SPINCOUNT='300000')


def rounds_of(command, **variables):
    """The rounds of waiting that each OpenMP loaded by the command shows."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT')}
    environment.update(variables, OMP_DISPLAY_ENV='verbose', CAFFE_LOG='warning')
    result = subprocess.run(command, env=environment, check=True, capture_output=True, text=True,
                            timeout=120)
    return re.findall(r"GOMP_SPINCOUNT = '(\d+)'", result.stderr), result.stdout


def test_the_command_bounds_the_waiting_of_its_threads():
    from caffe import openmp_waiting
    command = [os.path.join(ROOT, 'build', 'tools', 'caffe'), '--version']
    if not os.path.exists(command[0]):
        pytest.skip('the command is not built')
    assert rounds_of(command)[0][-1] == str(openmp_waiting.ROUNDS)
    assert rounds_of(command, GOMP_SPINCOUNT='77')[0] == ['77']
    assert str(openmp_waiting.ROUNDS) not in rounds_of(command, OMP_WAIT_POLICY='passive')[0]


@pytest.mark.parametrize('before, mine', [
    ('', True),
    ("ctypes.CDLL('libgomp.so.1')", False),  # its variables were read without us
    ("os.environ['GOMP_SPINCOUNT'] = '77'", False),
    ("os.environ['OMP_WAIT_POLICY'] = 'passive'", False)])
def test_the_package_bounds_the_waiting_of_an_openmp_that_it_loads(before, mine):
    from caffe import openmp_waiting
    code = '''
import ctypes, os, sys
sys.path[:0] = %r
%s
before = dict(os.environ)
import caffe
for name in ('OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'):
    assert os.environ.get(name) == before.get(name), name
print('imported')
''' % (sys.path, before)
    rounds, output = rounds_of([sys.executable, '-c', code])
    assert output == 'imported\n'
    assert (str(openmp_waiting.ROUNDS) in rounds) == mine
