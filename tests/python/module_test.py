import signal
import subprocess
import sys
import threading
import time

import pytest

import caffe
from nets import feed, settings, small_net, write

pytestmark = pytest.mark.serial


def python(code, *arguments, **more):
    return subprocess.Popen([sys.executable, '-c', code, *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)


IMPORT = 'import sys; sys.path[:0] = %r; import caffe\n' % (sys.path,)


def test_importing_is_quiet():
    process = python(IMPORT)
    assert process.communicate()[0] == '' and process.returncode == 0


def test_what_scripts_look_for_is_there():
    for name in ('Net SGDSolver NesterovSolver AdamSolver init_log log set_mode_cpu set_mode_gpu '
                 'set_device set_devices select_device enumerate_devices release_memory get_solver '
                 'get_solver_from_file layer_type_list set_random_seed solver_count '
                 'set_solver_count solver_rank set_solver_rank set_multiprocess has_nccl Layer '
                 'LayerParameter NetParameter NetState SolverParameter data_type quantizer_mode '
                 'Classifier Detector io layers params NetSpec to_proto __version__ Stream Timer AdaGradSolver '
                 'RMSPropSolver AdaDeltaSolver set_logging_disabled bfloat16').split():
        assert hasattr(caffe, name), name
    assert (caffe.TRAIN, caffe.TEST) == (0, 1)


def test_layer_types():
    assert {'Data', 'Convolution', 'InnerProduct', 'ReLU'} <= set(caffe.layer_type_list())


def test_data_types_are_numbers_of_the_messages():
    from caffe.proto import caffe_pb2
    for name in ('CAFFE_FLOAT', 'CAFFE_HALF', 'CAFFE_DOUBLE', 'CAFFE_BFLOAT16',
                 'CAFFE_INT8_QUANTIZED', 'CAFFE_INT16_QUANTIZED'):
        assert int(getattr(caffe.data_type, name)) == getattr(caffe_pb2, name)
    assert int(caffe.quantizer_mode.CAFFE_QUANT_OBSERVE) == caffe_pb2.CAFFE_QUANT_OBSERVE


def test_devices(capfd):
    count = caffe.enumerate_devices(True)
    assert capfd.readouterr() == ('', '')
    assert isinstance(count, int) and count == len(caffe.devices()) - 1
    caffe.enumerate_devices(False)
    printed = ''.join(capfd.readouterr())
    for device in caffe.devices()[:-1]:
        assert device.name in printed
    with pytest.raises(RuntimeError, match='99'):
        caffe.set_device(99)
    with pytest.raises(RuntimeError, match='cuda:99'):
        caffe.set_device('cuda:99')
    caffe.set_device('cpu')


def test_a_long_call_lets_other_threads_run(tmp_path):
    caffe.set_device('cpu')
    solver = caffe.get_solver(settings(tmp_path, max_iter=100000, display=0, test_interval=0,
                                       test_iter=[]))
    feed(solver)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.01):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    while time.monotonic() - begin < 0.2:
        solver.step(200)
    end = time.monotonic()
    done.set()
    thread.join()
    assert len([t for t in ticks if begin < t < end]) >= 5


def test_control_c_stops_a_long_call(tmp_path):
    solver_file = write(tmp_path, settings(tmp_path, display=0, test_interval=0, test_iter=[]),
                        'solver.prototxt')
    process = python(IMPORT + 'caffe.set_device("cpu")\n'
                     'solver = caffe.get_solver(sys.argv[1])\n'
                     'print("ready", flush=True)\n'
                     'try:\n  solver.step(10 ** 9)\n'
                     'except KeyboardInterrupt:\n  print("iterations:", solver.iter)\n', solver_file)
    while True:  # log lines may come first
        line = process.stdout.readline()
        assert line, 'the process ended early'
        if line == 'ready\n':
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    try:
        output = process.communicate(timeout=20)[0]
    finally:
        process.kill()
    assert 'iterations:' in output and process.returncode == 0
    assert int(output.split('iterations:')[1]) > 0


def test_the_classifier_averages_crops(tmp_path):
    import numpy as np
    from caffe import layers as L
    caffe.set_device('cpu')
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[4, 3, 6, 6]))
    spec.ip = L.InnerProduct(spec.data, num_output=3, weight_filler=dict(type='gaussian', std=0.1))
    spec.prob = L.Softmax(spec.ip)
    model = write(tmp_path, spec.to_proto())
    weights = str(tmp_path / 'net.caffemodel')
    caffe.Net(model, caffe.TEST).save(weights)
    classifier = caffe.Classifier(model, weights, image_dims=(8, 8), mean=np.zeros(3),
                                  raw_scale=255, channel_swap=(2, 1, 0))
    images = list(np.random.RandomState(0).rand(2, 10, 12, 3))
    over = classifier.predict(images)
    centre = classifier.predict(images, oversample=False)
    assert over.shape == centre.shape == (2, 3)
    np.testing.assert_allclose(over.sum(axis=1), 1, rtol=1e-5)
    resized = caffe.io.resize_image(images[0], (8, 8))
    crops = caffe.io.oversample([resized], (6, 6))
    data = np.array([classifier.transformer.preprocess('data', crop) for crop in crops])
    np.testing.assert_allclose(over[0], classifier.forward_all(data=data)['prob'].mean(axis=0),
                               rtol=1e-5)
    np.testing.assert_allclose(centre[0], classifier.forward_all(data=data[4:5])['prob'][0],
                               rtol=1e-5)


def test_the_detector_classifies_windows(tmp_path):
    import numpy as np
    from PIL import Image
    from caffe import layers as L
    caffe.set_device('cpu')
    spec = caffe.NetSpec()
    spec.data = L.Input(shape=dict(dim=[2, 3, 8, 8]))
    spec.prob = L.Softmax(L.InnerProduct(spec.data, num_output=3, name='ip',
                                         weight_filler=dict(type='gaussian', std=0.1)))
    model = write(tmp_path, spec.to_proto())
    weights = str(tmp_path / 'net.caffemodel')
    caffe.Net(model, caffe.TEST).save(weights)
    image = str(tmp_path / 'image.png')
    Image.fromarray((np.random.RandomState(0).rand(20, 30, 3) * 255).astype(np.uint8)).save(image)
    detector = caffe.Detector(model, weights, mean=np.array([1., 2., 3.]), raw_scale=255,
                              context_pad=1)
    windows = [(2, 3, 12, 17), (0, 0, 5, 5), (15, 20, 20, 30)]
    found = detector.detect_windows([(image, windows)])
    assert [entry['window'] for entry in found] == windows
    for entry in found:
        assert entry['filename'] == image and entry['prediction'].sum() == pytest.approx(1)
    # Beyond the image's corner lies the mean, which is zero once it was subtracted.
    crop = detector.crop(caffe.io.load_image(image), windows[1])
    prepared = detector.transformer.preprocess('data', crop)
    np.testing.assert_allclose(prepared[:, 0, :], 0, atol=1e-4)
    assert np.abs(prepared[:, 1:, 1:]).min() > 0


def test_control_c_stops_a_forward(tmp_path):
    from caffe import layers as L
    spec = caffe.NetSpec()
    spec.data = top = L.Input(shape=dict(dim=[1 << 22]))
    for _ in range(5000):  # takes many seconds
        top = L.ReLU(top, in_place=True)
    spec.out = top
    process = python(IMPORT + 'caffe.set_device("cpu")\ncaffe.init_log(2)\n'
                     'net = caffe.Net(sys.argv[1], caffe.TEST)\n'
                     'print("ready", flush=True)\n'
                     'try:\n  net.forward(); print("ended")\n'
                     'except KeyboardInterrupt:\n  print("stopped")\n',
                     write(tmp_path, spec.to_proto()))
    assert process.stdout.readline() == 'ready\n'
    time.sleep(0.3)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert output == 'stopped\n' and process.returncode == 0
    assert time.monotonic() - begin < 10


def test_a_timer_counts_milliseconds():
    timer = caffe.Timer()
    with pytest.raises(RuntimeError, match='never started'):
        timer.ms
    timer.start()
    time.sleep(0.02)
    timer.stop()
    first = timer.ms
    assert 20 <= first < 2000 and timer.ms == first


@pytest.mark.parametrize('code, said', [
    ('', True), ('caffe.init_log()', True), ('caffe.init_log(0, True)', True),
    ('caffe.init_log(1)', False), ('caffe.set_logging_disabled()', False),
    ('caffe.set_logging_disabled(); caffe.set_logging_disabled(False)', True)])
def test_log_lines_go_to_standard_error(code, said):
    process = python(IMPORT + code + '\nsys.stderr = None\ncaffe.log("a line")\n')
    output = process.communicate()[0]
    assert process.returncode == 0
    assert ('a line' in output) == said


def test_nets_by_different_threads():
    results = {}

    def run(key):
        caffe.set_device('cpu')
        net = caffe.Net(small_net(), caffe.TEST)
        for name in net.params:
            for blob in net.params[name]:
                blob.data[...] = 0.5
        net.blobs['data'].data[...] = key
        for _ in range(50):
            net.forward()
        results[key] = net.blobs['ip'].data.copy()

    threads = [threading.Thread(target=run, args=(key,)) for key in (1, 2, 1.5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = (results[1] + results[2]) / 2
    assert abs(results[1.5] - expected).max() < 1e-2 * abs(expected).max()


def test_release_memory(tmp_path):
    net = caffe.Net(write(tmp_path, small_net()), caffe.TEST)
    device = caffe.devices()[-1]
    device_of_net = caffe.device()
    first = {name: blob.copy() for name, blob in net.forward().items()}
    in_use = device_of_net.bytes_in_use
    assert isinstance(caffe.release_memory(), int)
    assert (device.bytes_cached, device_of_net.bytes_cached) == (0, 0)
    assert device_of_net.bytes_in_use == in_use
    for name, blob in net.forward().items():
        assert (blob == first[name]).all()
