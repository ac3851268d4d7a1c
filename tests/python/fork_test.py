"""Forked children, as multiprocessing starts them on Linux: what works, and the errors."""
import os
import struct
import subprocess
import sys
import zlib

import pytest

import caffe

pytestmark = pytest.mark.serial

PRELUDE = '''
import os, sys, threading, time
sys.path[:0] = %r
os.environ['CAFFE_LOG'] = 'warning'
import numpy as np
import caffe
from caffe import layers as L

def make(name='', size=300):
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[8, 3, 16, 16]))
    spec.conv = L.Convolution(spec.data, num_output=16, kernel_size=3,
                              weight_filler=dict(type='xavier'))
    spec.relu = L.ReLU(spec.conv)
    spec.ip = L.InnerProduct(spec.relu, num_output=size, weight_filler=dict(type='xavier'))
    spec.prob = L.Softmax(spec.ip)
    proto = spec.to_proto()
    proto.name = name
    return caffe.Net(proto, caffe.TEST)

def in_child(work, seconds=60):
    """What work() printed in a forked child, and how the child ended: its status, or 'hangs'."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
            sys.stdout.flush()
        except BaseException as error:
            print(type(error).__name__, error, flush=True)
            os._exit(1)
        os._exit(0)
    end = time.time() + seconds
    while time.time() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return 'hangs'

data = np.random.RandomState(0).randn(8, 3, 16, 16)
''' % (sys.path,)

DEVICES = [device.name for device in caffe.devices() if device.name != 'cpu']


def run(code, *arguments):
    """What a script printed, which must end by itself."""
    process = subprocess.run([sys.executable, '-c', PRELUDE + code, *arguments],
                             capture_output=True, text=True, timeout=240)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_the_cpu_works_in_a_child():
    out = run('''
caffe.set_device('cpu')
net = make()
expected = net.forward(data=data)['prob'].copy()

def work():
    assert (net.forward(data=data)['prob'] == expected).all()
    other = make()
    other.share_with(net)
    assert (other.forward(data=data)['prob'] == expected).all()
    print(in_child(lambda: net.forward(data=data)))

for i in range(5):
    print(in_child(work))
    assert (net.forward(data=data)['prob'] == expected).all()
''')
    assert out.split() == ['0', '0'] * 5


def test_training_works_in_a_child():
    out = run('''
from caffe.proto import caffe_pb2
caffe.set_device('cpu')
spec = caffe.NetSpec()
spec.data = L.DummyData(shape=[dict(dim=[64, 300])], data_filler=dict(type='gaussian'))
spec.ip = L.InnerProduct(spec.data, num_output=200, weight_filler=dict(type='xavier'))
spec.loss = L.EuclideanLoss(spec.ip, spec.ip)
solver = caffe.get_solver(caffe_pb2.SolverParameter(
    net_param=spec.to_proto(), base_lr=0.01, lr_policy='fixed', random_seed=1))
solver.step(2)

def work():
    solver.step(3)
    print(solver.iter)

print(in_child(work), solver.iter)
''')
    assert out.split() == ['5', '0', '2']


def test_pools_of_processes_work():
    out = run('''
import multiprocessing
caffe.set_device('cpu')
net = make()
net.forward(data=data)

def work(i):
    return float(net.forward(data=data + i)['prob'].sum())

if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(2) as pool:
        print(pool.map_async(work, range(4)).get(timeout=60))
''')
    assert [round(x) for x in eval(out)] == [8] * 4


def test_a_child_of_a_process_that_computes_in_another_thread():
    out = run('''
caffe.set_device('cpu')
net = make(size=1000)
expected = net.forward(data=data)['prob'].copy()
busy = make('busy', size=1000)
stop = False

def loop():
    caffe.set_device('cpu')
    while not stop:
        busy.forward(data=data)

thread = threading.Thread(target=loop)
thread.start()

def work():
    assert (net.forward(data=data)['prob'] == expected).all()

print([in_child(work) for i in range(30)])
stop = True
thread.join()
''')
    assert eval(out) == [0] * 30


def test_a_net_in_use_is_an_error_that_names_it():
    out = run('''
caffe.set_device('cpu')
net = make('busy')
begun, end = threading.Event(), threading.Event()

def hold(layer):
    begun.set()
    end.wait()

net.before_forward(hold)
thread = threading.Thread(target=net.forward)
thread.start()
begun.wait()
print(in_child(net.forward))
print(in_child(lambda: net.blobs['data'].data))
end.set()
thread.join()
''')
    lines = out.splitlines()
    assert lines[1] == lines[3] == '1'
    for line in lines[0], lines[2]:
        assert 'net busy was in use by another thread when this process was forked' in line


def test_threads_that_waited_for_a_net_are_not_in_a_child():
    out = run('''
caffe.set_device('cpu')
net = make()
expected = net.forward(data=data)['prob'].copy()

def forward():
    caffe.set_device('cpu')
    assert (net.forward(data=data)['prob'] == expected).all()

def work():
    net.forward(data=data)
    held.__exit__()
    threads = [threading.Thread(target=forward) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print('fine')

held = net.exclusive()
held.__enter__()
thread = threading.Thread(target=forward)
thread.start()
time.sleep(0.3)
print(in_child(work, seconds=20))
held.__exit__()
thread.join()
''')
    assert out.split() == ['fine', '0']


@pytest.mark.parametrize('device', DEVICES)
def test_a_driver_is_an_error_in_a_child(device):
    out = run('''
caffe.set_device(sys.argv[1])
net = make()
net.forward(data=data)
net.blobs['data'].data  # a copy on the host

for work in (net.forward, lambda: make().forward(data=data), lambda: net.blobs['prob'].data,
             caffe.device().synchronize):
    print(in_child(work))

def on_the_cpu():
    global net
    del net
    caffe.set_device('cpu')
    print(make().forward(data=data)['prob'].shape)

print(in_child(on_the_cpu))

# A child that ends as scripts do, with handlers at exit and destructors.
sys.stdout.flush()
child = os.fork()
if child == 0:
    sys.exit(0)
print(os.waitpid(child, 0)[1])
print(net.forward(data=data)['prob'].shape)
''', device)
    lines = out.splitlines()
    errors_of_children = [line for line in lines if 'RuntimeError' in line]
    assert len(errors_of_children) >= 3, out
    for line in errors_of_children:
        assert device in line and 'was opened before this process was forked' in line
        assert 'spawn' in line
    assert 'hangs' not in lines
    assert lines[-4:] == ['(8, 300)', '0', '0', '(8, 300)']


@pytest.mark.parametrize('device', DEVICES)
def test_a_device_that_was_only_found_is_an_error_in_a_child(device):
    out = run('''
caffe.set_device(sys.argv[1])
print(in_child(make))
''', device)
    assert device in out and 'spawn' in out and out.splitlines()[-1] == '1'


def png(path):
    def chunk(kind, content):
        body = kind + content
        return struct.pack('>I', len(content)) + body + struct.pack('>I', zlib.crc32(body))

    rows = b''.join(b'\0' + bytes(range(row, row + 4)) for row in range(4))
    path.write_bytes(b'\x89PNG\r\n\x1a\n' +
                     chunk(b'IHDR', struct.pack('>IIBBBBB', 4, 4, 8, 0, 0, 0, 0)) +
                     chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def test_a_data_layer_is_an_error_that_names_it(tmp_path):
    png(tmp_path / 'a.png')
    (tmp_path / 'list.txt').write_text('a.png 0\n')
    out = run('''
caffe.set_device('cpu')
spec = caffe.NetSpec()
spec.images, spec.labels = L.ImageData(source=sys.argv[1] + '/list.txt', batch_size=2, ntop=2,
                                       root_folder=sys.argv[1] + '/', is_color=False)
proto = spec.to_proto()
net = caffe.Net(proto, caffe.TEST)
net.forward()
time.sleep(0.1)  # the thread waits for a batch to be taken

def loop():
    for i in range(20):
        net.forward()

print(in_child(loop))

def new_net():
    global net
    net = caffe.Net(proto, caffe.TEST)
    for i in range(20):
        net.forward()

print(in_child(new_net))
net.forward()
''', str(tmp_path))
    lines = out.splitlines()
    assert 'images (ImageData)' in lines[0] and 'make the net in the child' in lines[0], out
    assert lines[1:] == ['1', '0']
