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


def run(folder, *arguments):
    result = subprocess.run(
        [sys.executable, os.path.join(ROOT, 'examples', 'digits', 'digits.py'), '--devices', 'cpu',
         '--output', str(folder), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=dict(os.environ, CAFFE_LOG='info'))
    assert result.returncode == 0, result.stdout
    return result.stdout, json.loads((folder / 'results.json').read_text())


def test_float_is_trained_once(tmp_path):
    output, results = run(tmp_path, '--types', 'int8', 'float', 'int16', 'half',
                          '--iterations', '30')
    assert output.count('Initializing solver from parameters') == 2
    assert [result['trained'] for result in results] == ['float', 'float', 'float', 'half']
    assert results[0]['losses'] == results[1]['losses'] == results[2]['losses']
    # Each is tested with its own arithmetic.
    assert results[0]['memory'] < results[2]['memory'] < results[1]['memory']


def test_plots_say_what_was_trained(tmp_path, monkeypatch):
    import matplotlib
    matplotlib.use('Agg')
    import matplotlib.pyplot as plt
    sys.path.insert(0, os.path.join(ROOT, 'examples', 'digits'))
    import digits
    import numpy as np
    figures = []
    monkeypatch.setattr(plt, 'close', lambda: figures.append(plt.gcf()))
    runs = [dict(type=name, device='cpu', trained=trained, accuracy=accuracy, losses=[1.0] * 50,
                 confusion=np.eye(10, dtype=int))
            for name, trained, accuracy in (('float', 'float', 0.98444), ('half', 'half', 0.5),
                                            ('int16', 'float', 1), ('int8', 'float', 0.25))]
    digits.plot(runs, str(tmp_path))
    curves, confusion = figures
    legend = [text.get_text() for text in curves.axes[0].get_legend().get_texts()]
    assert legend == ['float, cpu (then quantized: int16, int8)', 'half, cpu']
    assert len(curves.axes[0].get_lines()) == 2
    assert 'Training' in curves.axes[0].get_title()
    titles = [ax.get_title() for ax in confusion.axes if ax.axison]
    assert titles == ['float, cpu: 98.44 % right', 'half, cpu: 50.00 % right',
                      'int16, cpu: 100.00 % right', 'int8, cpu: 25.00 % right']
    assert min(text.get_fontsize() for ax in confusion.axes for text in ax.texts) >= 10


def test_a_time_is_the_shortest_of_many(monkeypatch, tmp_path):
    sys.path.insert(0, os.path.join(ROOT, 'examples', 'digits'))
    import digits
    # The end of the timing, then the clock of the loop, the begin and the end of a batch.
    ticks = [0.0]
    for number in range(5):
        ticks += [] if number == 0 else [0.1 * number]
        ticks += [0.1 * number, 0.1 * number + (0.009 if number == 3 else 0.05)]
    ticks = iter(ticks + [digits.TIMED_SECONDS])
    monkeypatch.setattr(digits.time, 'perf_counter', lambda: next(ticks))
    (train_images, train_labels), data = digits.load_digits(1)
    net = digits.make_net(digits.TYPES['float'], digits.TEST_BATCH, training=False)
    import caffe
    caffe.set_device('cpu')
    path = str(tmp_path / 'digits.caffemodel')
    caffe.Net(net, caffe.TEST).save(path)
    _, milliseconds, _ = digits.test(path, digits.TYPES['float'], data)
    assert milliseconds == pytest.approx(0.009 * 1000 / digits.TEST_BATCH, rel=1e-6)
