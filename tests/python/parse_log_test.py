"""tools/parse_log.py and tools/plot_log.py on the log of a training, and on old ones."""
import csv
import math
import os
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(ROOT, 'build', 'tools', 'caffe')
PARSE = os.path.join(ROOT, 'tools', 'parse_log.py')
PLOT = os.path.join(ROOT, 'tools', 'plot_log.py')

NET = '''
layer { name: "data" type: "DummyData" top: "x" top: "label"
        dummy_data_param { shape { dim: 4 dim: 3 } shape { dim: 4 }
                           data_filler { type: "gaussian" std: 1 } data_filler { } } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y"
        inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "y" bottom: "label" top: "accuracy"
        include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "y" bottom: "label" top: "loss" }
'''
SOLVER = '''
net: "%s" base_lr: 0.1 lr_policy: "step" gamma: 0.5 stepsize: 20 max_iter: 50 display: 10
test_iter: 3 test_interval: 25 random_seed: 3 snapshot_after_train: false
'''


def run(*command, **environment):
    return subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=dict(os.environ, **environment))


def table(path):
    with open(path, newline='', encoding='utf-8') as file:
        return [{name: float(value) for name, value in row.items() if value}
                for row in csv.DictReader(file)]


@pytest.fixture
def log(tmp_path):
    """What `caffe train` writes to standard error, and to -log_dir."""
    if not os.path.exists(TOOL):
        pytest.skip('the command caffe is not built')
    (tmp_path / 'net.prototxt').write_text(NET)
    (tmp_path / 'solver.prototxt').write_text(SOLVER % (tmp_path / 'net.prototxt'))
    (tmp_path / 'logs').mkdir()
    training = run(TOOL, 'train', '-solver', tmp_path / 'solver.prototxt', '-gpu', 'cpu',
                   '-log_dir', tmp_path / 'logs', CAFFE_LOG='info')
    assert training.returncode == 0, training.stderr
    path = tmp_path / 'train.log'
    path.write_text(training.stderr)
    return path


def test_a_log_becomes_tables(log, tmp_path):
    for source in (log, tmp_path / 'logs' / 'caffe.INFO'):
        result = run(sys.executable, PARSE, source, tmp_path / 'tables', '--verbose')
        assert result.returncode == 0, result.stderr
        start = tmp_path / 'tables' / source.name
        assert result.stdout == 'wrote %s.train\nwrote %s.test\n' % (start, start)
        with open(str(start) + '.train', encoding='utf-8') as file:
            assert file.readline() == 'NumIters,Seconds,LearningRate,loss\n'
        with open(str(start) + '.test', encoding='utf-8') as file:
            assert file.readline() == 'NumIters,Seconds,LearningRate,accuracy,loss\n'
        train, test = table(str(start) + '.train'), table(str(start) + '.test')
        assert [row['NumIters'] for row in train] == [0, 10, 20, 30, 40]
        assert [row['LearningRate'] for row in train] == [0.1, 0.1, 0.05, 0.05, 0.025]
        assert [row['NumIters'] for row in test] == [0, 25, 50]
        assert [row['LearningRate'] for row in test] == [0.1, 0.05, 0.025]
        seconds = [row['Seconds'] for row in train]
        assert seconds == sorted(seconds) and 0 <= seconds[0] < seconds[-1] < 600
        text = log.read_text()
        for row in train:
            assert 'Train net output #0: loss = %g' % row['loss'] in text
        for row in test:
            assert 'Test net output #0: accuracy = %g\n' % row['accuracy'] in text
            assert 'Test net output #1: loss = %g' % row['loss'] in text


def line(text, time='12:00:00.500000', day='0101'):
    return 'I%s %s  4242 solver.cpp:239] %s\n' % (day, time, text)


def test_what_logs_may_hold(tmp_path):
    path = tmp_path / 'old.log'
    path.write_text(
        'not a line of a log\n'
        + line('Iteration 0, Testing net (#0)', '23:59:59.250000', '1231')
        + line('    Test net output #0: accuracy = 0.25', '23:59:59.500000', '1231')
        + line('Iteration 0, Testing net (#1)', '23:59:59.500000', '1231')
        + line('    Test net output #0: accuracy = 0.5', '23:59:59.500000', '1231')
        # The year ends here.
        + line('Iteration 0 (-1.4013e-45 iter/s, 0.1s/2 iters), loss = nan', '00:00:01.250000')
        + line('    Train net output #0: scores = 1', '00:00:01.250000')
        + line('    Train net output #1: scores = -2e-05', '00:00:01.250000')
        + line('    Train net output #2: loss = nan (* 1 = nan loss)', '00:00:01.250000')
        + line('Iteration 0, lr = 1e-05', '00:00:02.000000')
        # Older versions have no speed.
        + line('Iteration 2, loss = 1.5', '00:00:03.250000')
        + line('    Train net output #0: scores = inf', '00:00:03.250000'))
    result = run(sys.executable, PARSE, path, tmp_path, '--delimiter', ',')
    assert result.returncode == 0, result.stderr
    train = table(str(path) + '.train')
    assert [row['Seconds'] for row in train] == [2, 4]
    assert [row['scores'] for row in train] == [1, math.inf]
    assert train[0]['scores_1'] == -2e-05 and math.isnan(train[0]['loss'])
    assert train[1]['LearningRate'] == 1e-05 and 'loss' not in train[1]
    assert [row['accuracy'] for row in table(str(path) + '.test')] == [0.25]
    assert [row['accuracy'] for row in table(str(path) + '.test1')] == [0.5]


def test_damaged_lines_are_left_out(tmp_path):
    path = tmp_path / 'bad.log'
    path.write_text(
        line('Iteration 1, loss = 1')
        + line('    Train net output #0: lo\x1b[31mss = 1')
        + line('Iteration 2, loss = 1', day='1399')
        + line('Iteration %s, loss = 1' % ('9' * 5000))
        + line('Iteration 3, lr = 1.2.3')
        + line('    Train net output #0: x = 1.2.3'))
    result = run(sys.executable, PARSE, path, tmp_path)
    assert result.returncode == 0, result.stderr
    picture = tmp_path / 'curve.png'
    result = run(sys.executable, PLOT, path, '--output', picture)
    assert result.returncode == 0, result.stderr
    assert 'lo\\x1b[31mss' in result.stdout and '\x1b' not in result.stdout


def test_files_that_are_no_logs(tmp_path):
    (tmp_path / 'text').write_text('hello\n')
    for tool in ((PARSE, tmp_path / 'text', tmp_path), (PLOT, tmp_path / 'text')):
        result = run(sys.executable, *tool)
        assert result.returncode == 1 and 'Traceback' not in result.stderr
        assert 'no line has "Train net output" or "Test net output"' in result.stderr
    for tool in ((PARSE, tmp_path / 'none', tmp_path), (PLOT, tmp_path / 'none')):
        result = run(sys.executable, *tool)
        assert result.returncode == 1 and 'No such file' in result.stderr


def test_a_full_disk_names_the_file(log, tmp_path):
    target = tmp_path / (os.path.basename(log) + '.train')
    target.symlink_to('/dev/full')
    result = run(sys.executable, PARSE, log, tmp_path)
    assert result.returncode == 1, result.stderr
    for part in ('No space left on device', str(target)):
        assert part in result.stderr, result.stderr


def test_a_log_becomes_a_picture(log, tmp_path):
    picture = tmp_path / 'curve.png'
    result = run(sys.executable, PLOT, log, '--output', picture)
    assert result.returncode == 0, result.stderr
    assert result.stdout == 'drew loss, accuracy to %s\n' % picture
    assert picture.read_bytes().startswith(b'\x89PNG')
    result = run(sys.executable, PLOT, log, '--fields', 'los')
    assert result.stderr == 'plot_log.py: no output los; the outputs are accuracy, loss\n'
    sys.path.insert(0, os.path.dirname(PLOT))
    import plot_log
    found = plot_log.series(str(log))
    labels = {name: [label for label, _, _ in lines] for name, lines in found.items()}
    assert labels == {'loss': ['train.log, train', 'train.log, test'],
                      'accuracy': ['train.log, test']}
    assert found['loss'][0][1] == (0, 10, 20, 30, 40)
