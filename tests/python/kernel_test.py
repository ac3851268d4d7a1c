"""Kernels of users: caffe.Kernel, alone and in layers written in Python."""
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import caffe
from caffe import layers as L, NetSpec
from caffe.proto import caffe_pb2

MODULE = __name__
TWICE = """
KERNEL(twice, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
  FOR_EACH(i, n) STORE(MOtype, y, i, 2 * LOAD(MItype, x, i));
}
"""
SWISH = """
// y = x s(beta x), with the sigmoid s and one beta for each channel.
DEVICE_FN float sigmoid(float v) { return 1.0f / (1.0f + exp_f32(-v)); }

KERNEL(swish, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
       IN(Mastertype, beta), OUT(MOtype, y)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const float v = LOAD(MItype, x, r * columns + c), b = LOAD(Mastertype, beta, r % channels);
    STORE(MOtype, y, r * columns + c, v * sigmoid(b * v));
  }
}

KERNEL(swish_bottom, ARG(i64, rows), ARG(i64, columns), ARG(i64, channels), IN(MItype, x),
       IN(Mastertype, beta), IN(MItype, dy), OUT(MOtype, dx)) {
  FOR_EACH_ROW(r, rows, c, columns) {
    const float v = LOAD(MItype, x, r * columns + c), b = LOAD(Mastertype, beta, r % channels);
    const float s = sigmoid(b * v);
    STORE(MOtype, dx, r * columns + c,
          LOAD(MItype, dy, r * columns + c) * (s + b * v * s * (1.0f - s)));
  }
}

// Adds the gradient of beta: a work item sums a channel.
KERNEL(swish_beta, ARG(i64, channels), ARG(i64, items), ARG(i64, columns), IN(MItype, x),
       IN(Mastertype, beta), IN(MItype, dy), OUT(Mastertype, dbeta)) {
  FOR_EACH_GROUP(k, channels) {
    const float b = LOAD(Mastertype, beta, k);
    float sum = LOAD(Mastertype, dbeta, k);
    for (i32 item = 0; item < items; ++item) {
      for (i32 c = 0; c < columns; ++c) {
        const Index at = (item * (Index)channels + (Index)k) * (Index)columns + c;
        const float v = LOAD(MItype, x, at), s = sigmoid(b * v);
        sum += LOAD(MItype, dy, at) * v * v * s * (1.0f - s);
      }
    }
    STORE(Mastertype, dbeta, k, sum);
  }
}
"""


class Swish(caffe.Layer):
    """Swish with a learnable beta for each channel; all passes run on the net's device."""

    def setup(self, bottom, top):
        channels = bottom[0].shape[1]
        self.blobs.add_blob(channels)
        self.blobs[0].data[...] = 1
        few = {'beta': 'channels', 'dbeta': 'channels'}
        self.value = caffe.Kernel(SWISH, 'swish', 'swish', {'beta': 'channels'})
        self.to_bottom = caffe.Kernel(SWISH, 'swish_bottom', 'swish', {'beta': 'channels'})
        whole = ('items', 'channels', 'columns')
        self.to_beta = caffe.Kernel(SWISH, 'swish_beta', 'swish', {**few, 'x': whole, 'dy': whole})

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def extents(self, bottom):
        channels = bottom.shape[1]
        rows = bottom.shape[0] * channels
        return rows, bottom.count // rows, channels

    def forward(self, bottom, top):
        self.value(*self.extents(bottom[0]), bottom[0], self.blobs[0], top[0])

    def backward(self, top, propagate_down, bottom):
        x, beta, dy = bottom[0], self.blobs[0], top[0].device_diff
        rows, columns, channels = self.extents(x)
        self.to_beta(channels, rows // channels, columns, x, beta, dy, beta.device_diff)
        if propagate_down[0]:
            self.to_bottom(rows, columns, channels, x, beta, dy, x.device_diff)


class NumpySwish(caffe.Layer):
    """The same in NumPy."""

    def setup(self, bottom, top):
        self.blobs.add_blob(bottom[0].shape[1])
        self.blobs[0].data[...] = 1

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        self.beta = self.blobs[0].data[None, :, None].copy()
        x = np.asarray(bottom[0].float_data)
        self.x = x.reshape(x.shape[0], x.shape[1], -1)
        self.s = 1 / (1 + np.exp(-self.beta * self.x))
        top[0].data[...] = (self.x * self.s).reshape(x.shape)

    def backward(self, top, propagate_down, bottom):
        s = self.s
        dy = np.asarray(top[0].float_diff).reshape(self.x.shape)
        self.blobs[0].diff[...] += (dy * self.x ** 2 * s * (1 - s)).sum(axis=(0, 2))
        if propagate_down[0]:
            dx = dy * (s + self.beta * self.x * s * (1 - s))
            bottom[0].diff[...] = dx.reshape(bottom[0].shape)


def devices():
    return ['cpu'] + [device.name for device in caffe.devices() if device.name != 'cpu'][:1]


@pytest.fixture(params=devices())
def device(request):
    caffe.set_device(request.param)
    yield next(one for one in caffe.devices() if one.name == request.param)
    caffe.set_device('cpu')


def blob_net(*shape, name=None, **types):
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=list(shape)))
    net.y = L.Sigmoid(net.x)
    proto = net.to_proto()
    proto.force_backward = True
    for key, value in types.items():
        setattr(proto, key, value)
    net = caffe.Net(proto, caffe.TEST)
    net.forward()
    return net


def test_arrays_of_every_type(device):
    twice = caffe.Kernel(TWICE)
    assert (twice.name, twice.arguments) == ('twice',
                                             ['ARG(i64, n)', 'IN(MItype, x)', 'OUT(MOtype, y)'])
    types = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64]
    for source in types:
        for target in types:
            x, y = np.arange(100).astype(source), np.zeros(100, target)
            twice(100, x, y)
            assert np.array_equal(y.astype(float), (2 * np.arange(100.)).astype(target)), (source,
                                                                                          target)


def test_integers_and_views_of_arrays(device):
    """An array that is not whole, and elements that the kernel does not write."""
    add = caffe.Kernel("""
        KERNEL(add, ARG(i32, n), ARG(i32, more), IN(i32, x), OUT(i64, y)) {
          FOR_EACH(i, n) STORE(i64, y, i, (i64)LOAD(i32, x, i) + more);
        }""", title='add')
    y = np.full((4, 6), 7, np.int64)
    add(5, 40, np.arange(20, dtype=np.int32)[::2], y[::2, ::2])
    expected = np.full((4, 6), 7)
    expected[0, ::2], expected[2, ::2][:2] = [40, 42, 44], [46, 48]
    assert np.array_equal(y, expected)


def test_blobs_are_used_where_they_are(device):
    net = blob_net(3, 5)
    x, y = net.blobs['x'], net.blobs['y']
    values = np.linspace(-1, 1, 15).reshape(3, 5).astype(np.float32)
    x.data[...] = values
    twice = caffe.Kernel(TWICE)
    twice(15, x, y)
    assert np.array_equal(y.data, 2 * values)

    def run():
        twice(15, y, x)
        twice(15, x.device_data, y)
        twice(15, y, y.device_diff)
        twice(15, y.device_diff, y)

    run()  # after it, no view exists that may have been written
    before = device.counters
    for _ in range(3):
        run()
    device.synchronize()
    after = device.counters
    assert after['launches'] == before['launches'] + 12
    for name in ('uploads', 'downloads', 'upload_bytes', 'download_bytes'):
        assert after[name] == before[name], name
    assert np.array_equal(y.data, 2 ** 17 * values)
    assert np.array_equal(y.diff, 2 ** 16 * values)


def test_views_show_what_a_kernel_wrote_and_pass_what_a_script_wrote(device):
    net = blob_net(4)
    x, y = net.blobs['x'].data, net.blobs['y'].data
    twice = caffe.Kernel(TWICE)
    for round in range(3):
        x[...] = [round, 1, 2, 3]
        y[...] = 0
        twice(2, net.blobs['x'], net.blobs['y'])
        assert list(y) == [2 * round, 2, 0, 0]


@pytest.mark.parametrize('name', ['fp8_e4m3', 'float10', 'kernel_float24'])
def test_types_of_users(device, name):
    caffe.register_type('kernel_float24', 24, 'small_float_value(code, 8, 15, 1)',
                        'small_float_code(v, 8, 15, 1)')
    net = blob_net(6, data_type_name=name)
    net.blobs['x'].float_data = [0, 0.5, -1, 2, 3.3, 20]
    caffe.Kernel(TWICE)(6, net.blobs['x'], net.blobs['y'])
    x = net.blobs['x'].float_data
    net.blobs['x'].float_data = 2 * np.asarray(x)
    assert np.array_equal(net.blobs['y'].float_data, net.blobs['x'].float_data)


def test_codes(device, tmp_path):
    """LOAD gives codes from the zero point on, and STORE saturates."""
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[5]))
    net.y = L.ReLU(net.x)
    net = caffe.Net(net.to_proto(), caffe.TEST)
    net.quant_mode = 'observe'
    net.forward(x=np.array([-1, 0, 0.5, 1, 3]))
    net.save(str(tmp_path / 'w.caffemodel'))
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[5]), data_type='quant8')
    proto = net.to_proto()
    less = caffe.Kernel("""
        KERNEL(less, ARG(i64, n), IN(MItype, x), OUT(MOtype, y), OUT(i32, numbers)) {
          FOR_EACH(i, n) {
            STORE(i32, numbers, i, LOAD(MItype, x, i));
            STORE(MOtype, y, i, LOAD(MItype, x, i) - 20);
          }
        }""")
    numbers = np.zeros(5, np.int32)
    codes = caffe.Net(proto, caffe.TEST)
    with pytest.raises(RuntimeError, match='blob x of quant8, whose range was never observed'):
        less(5, codes.blobs['x'], codes.blobs['x'], numbers)
    codes = caffe.Net(proto, caffe.TEST, weights=str(tmp_path / 'w.caffemodel'))
    x = codes.blobs['x']
    x.float_data = [-1, 0, 0.5, 1, 3]
    before = np.asarray(x.data, int).copy()
    less(5, x, x, numbers)
    assert np.array_equal(numbers, before - x.zero_point)
    assert np.array_equal(x.data, np.maximum(before - 20, 0))


def test_errors_name_the_argument_and_the_cure(device):
    twice = caffe.Kernel(TWICE)
    x, y = np.zeros(4, np.float32), np.zeros(4, np.float32)

    def refuse(error, message, *arguments, kernel=twice, **more):
        with pytest.raises(error, match=message):
            kernel(*arguments, **more)

    refuse(TypeError, r'kernel twice has 3 arguments \(ARG\(i64, n\), .*\), and the call passes 2', 4,
           x)
    refuse(TypeError, 'argument n is ARG.*a number, not', x, x, y)
    refuse(TypeError, r'argument n is 1.5 \(float\), not an integer', 1.5, x, y)
    refuse(TypeError, r'argument x is 4 \(int\), not a blob, blob.device_diff or a NumPy array', 4, 4,
           y)
    refuse(TypeError, r'argument x is an array of uint8; .*astype', 4, np.zeros(4, np.uint8), y)
    refuse(RuntimeError, r'argument 1 \(MItype x\) is an array of i32; declare it as IN\(i32, x\)', 4,
           np.zeros(4, np.int32), y)
    refuse(RuntimeError, r'argument 2 \(MOtype y\) is an array of 4 elements, and the kernel has a '
           'loop over 5', 5, np.zeros(5, np.float32), y)
    refuse(RuntimeError, 'the size 3 is not that of its loop, which the arguments say: 4', 4, x, y,
           size=3)
    refuse(RuntimeError, 'the size -1 is negative', -1, x, y)
    y.flags.writeable = False
    refuse(ValueError, 'argument y is written by the kernel, and the array is read-only', 4, x, y)
    y.flags.writeable = True
    refuse(RuntimeError, 'no device', 4, x, y, device='nothing:7')
    twice(0, x, y)
    both = caffe.Kernel("""
        KERNEL(both, ARG(i64, n), IN(MItype, x), IN(MItype, w), OUT(f32, y)) {
          FOR_EACH(i, n) STORE(f32, y, i, LOAD(MItype, x, i) + LOAD(MItype, w, i));
        }""", 'both')
    refuse(RuntimeError, 'is an array of half, but an array, which is MItype, too, is of float', 4, x,
           x.astype(np.float16), y, kernel=both)
    refuse(RuntimeError, r'argument 3 \(f32 y\) is an array of f64, not f32', 4, x, x,
           y.astype(float), kernel=both)
    part = caffe.Kernel("""
        KERNEL(part, ARG(i64, n), IN(MItype, x), OUT(MOtype, y)) {
          FOR_EACH(i, 2 * n) STORE(MOtype, y, i, LOAD(MItype, x, i / 2));
        }""", 'part', elements={'x': 'n'})
    refuse(RuntimeError, 'not bounded by arguments alone, so the launch needs a size', 4, x, y,
           kernel=part)
    refuse(RuntimeError, 'x.* of 4 elements, and the kernel uses 5', 5, x, np.zeros(10, np.float32),
           kernel=part, size=10)
    part(2, x + 3, y, size=4)
    assert list(y) == [3, 3, 3, 3]


@pytest.mark.parametrize('text,message', [
    ('', 'the text has no kernel; it begins as KERNEL'),
    ('KERNEL(a, ARG(i64, n)) {} KERNEL(b, ARG(i64, n)) {}', 'has the kernels a, b; name the one'),
    ('KERNEL(a, ARG(size_t, n)) {}', 'kernel arguments cannot have type size_t'),
    ('KERNEL(a, IN(float, x)) {}', 'the array x has the type float; arrays are MItype'),
    ('KERNEL(a, i64 n) {}', "'i64 n' is not one of ARG"),
    ('BLOCK_KERNEL(a, ARG(i32, lanes)) {}', 'BLOCK_KERNEL is for kernels of the library'),
    ('SPAN_KERNEL(a, ARG(i64, n)) { FOR_EACH(i, n) {} }', 'a SPAN_KERNEL has the loops MAP1'),
])
def test_texts_are_checked(text, message):
    with pytest.raises(RuntimeError, match=message):
        caffe.Kernel(text)
    with pytest.raises(RuntimeError, match='the text has no kernel b; it has twice'):
        caffe.Kernel(TWICE, 'b')
    with pytest.raises(RuntimeError, match='elements names z, which is not one of its arrays'):
        caffe.Kernel(TWICE, elements={'z': 1})


def test_compile_errors_have_the_lines_of_the_text(device):
    text = TWICE.replace('2 * LOAD', 'two * LOAD')
    # NVRTC writes my_text(3) where others write my_text:3.
    with pytest.raises(RuntimeError,
                       match=r'(?s)(?=.*my_text[:(]3\b)(?=.*two)(?=.*> +3 \|).*kernel twice'):
        caffe.Kernel(text, title='my_text')(2, np.zeros(2, np.float32), np.zeros(2, np.float32))
    # A kernel behind an included file keeps its lines, too.
    text = '#include "epilogue/swish.h"\n\n' + text
    with pytest.raises(RuntimeError, match=r'my_text:5:'):
        caffe.Kernel(text, title='my_text')(2, np.zeros(2, np.float32), np.zeros(2, np.float32))


def test_functions_of_the_library_and_spans(device):
    swish = caffe.Kernel("""
        #include "epilogue/swish.h"
        SPAN_KERNEL(swish_of, ARG(i64, n), ARG(float, beta), IN(MItype, x), OUT(MOtype, y)) {
          MAP1(n, MOtype, y, MItype, x, v, swish_value(v, beta))
        }""".replace('\n        ', '\n'))
    for dtype in (np.float32, np.float16):
        x = np.linspace(-4, 4, 1003).astype(dtype)
        y = np.zeros_like(x)
        swish(1003, 1.5, x, y)
        exact = x.astype(float) / (1 + np.exp(-1.5 * x.astype(float)))
        assert np.allclose(y, exact, atol=2e-3 if dtype == np.float16 else 1e-6)


def test_the_cache_keeps_programs(device, tmp_path):
    script = '''
import sys, caffe, numpy as np
caffe.set_device(sys.argv[1])
device = caffe.device()
x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
for _ in range(2):
    caffe.Kernel("""%s""")(4, x, y)
assert list(y) == [0, 2, 4, 6]
print(device.counters['builds'])
''' % TWICE
    environment = dict(os.environ, CAFFE_CACHE_DIR=str(tmp_path), CAFFE_LOG='warning',
                       PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
    os.chmod(tmp_path, 0o700)
    builds = [subprocess.run([sys.executable, '-c', script, device.name], env=environment, text=True,
                             capture_output=True, check=True).stdout.strip() for _ in range(2)]
    assert builds == ['1', '0']


def test_without_a_compiler_the_error_says_what_helps(tmp_path):
    script = '''
import caffe, numpy as np
caffe.set_device('cpu')
caffe.Kernel("""%s""")(1, np.zeros(1, np.float32), np.zeros(1, np.float32))
''' % TWICE
    environment = dict(os.environ, CAFFE_CACHE='off', CAFFE_CXX='no-such-compiler',
                       PYTHONPATH=os.path.dirname(os.path.dirname(caffe.__file__)))
    result = subprocess.run([sys.executable, '-c', script], env=environment, text=True,
                            capture_output=True)
    assert 'needs a C++ compiler on the CPU, and there is no no-such-compiler; install one, or ' \
        'set CAFFE_CXX' in result.stderr


def training_net(layer, data_type):
    net = NetSpec()
    net.x = L.Input(shape=dict(dim=[6, 4, 5, 5]))
    net.label = L.Input(shape=dict(dim=[6]))
    net.conv = L.Convolution(net.x, num_output=3, kernel_size=3,
                             weight_filler=dict(type='gaussian', std=0.3))
    net.swish = (L.Python(net.conv, module=MODULE, layer=layer) if layer else L.PReLU(net.conv))
    net.score = L.InnerProduct(net.swish, num_output=4, weight_filler=dict(type='xavier'))
    net.loss = L.SoftmaxWithLoss(net.score, net.label)
    proto = net.to_proto()
    proto.data_type = data_type
    solver = caffe.get_solver(caffe_pb2.SolverParameter(
        net_param=proto, type='SGD', base_lr=0.1, momentum=0.9, lr_policy='fixed', random_seed=5))
    random = np.random.RandomState(1)
    solver.net.blobs['x'].data[...] = random.uniform(-1, 1, (6, 4, 5, 5))
    solver.net.blobs['label'].data[...] = random.randint(4, size=6)
    return solver


@pytest.mark.parametrize('data_type', ['CAFFE_FLOAT', 'CAFFE_HALF'])
def test_a_layer_of_kernels_trains_as_one_of_numpy_does(device, data_type):
    losses, betas = [], []
    for layer in ('Swish', 'NumpySwish'):
        solver = training_net(layer, getattr(caffe_pb2, data_type))
        losses.append([solver.step(1) for _ in range(15)])
        betas.append(solver.net.params['swish'][0].data.copy())
    tolerance = 1e-4 if data_type == 'CAFFE_FLOAT' else 0.02
    assert losses[0][-1] < 0.3 * losses[0][0]
    assert np.allclose(losses[0], losses[1], rtol=tolerance, atol=tolerance)
    assert np.allclose(betas[0], betas[1], rtol=tolerance, atol=tolerance)
    assert np.abs(betas[0] - 1).max() > 0.01


@pytest.mark.parametrize('data_type', ['CAFFE_FLOAT', 'CAFFE_HALF'])
def test_a_layer_of_kernels_leaves_everything_on_the_device(device, data_type):
    """Training copies as much between host and device as with a layer of the library."""
    copied = []
    for layer in ('Swish', None, 'NumpySwish'):
        solver = training_net(layer, getattr(caffe_pb2, data_type))
        solver.step(3)
        before = device.counters
        solver.step(5)
        after = device.counters
        copied.append([after[name] - before[name]
                       for name in ('uploads', 'upload_bytes', 'downloads', 'download_bytes')])
    assert copied[0] == copied[1]
    if device.name != 'cpu':
        assert copied[2][1] > copied[1][1] and copied[2][3] > copied[1][3]
