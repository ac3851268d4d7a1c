#!/usr/bin/env python3
"""Times passes of the nets in models/: built trees of Cortado and other frameworks, in turns.

Every side is a process of its own, on the same cores. For each net, type and batch all sides start,
warm up and report their results, which must agree; then they take turns, one round each, while the
others sleep. Weights and images are random and the same on all sides; the images are on the device
before the clock starts, the results are copied to the host.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import report as reports
from facts import ROOT, commit, processor, write_report
from presets import PRESETS

MODELS = {name: os.path.join('models', name, file + '.prototxt') for name, file in (
    ('alexnet', 'deploy'), ('caffenet', 'deploy'), ('caffenet_moe', 'deploy'),
    ('cifar10_quick', 'cifar10_quick'), ('googlenet', 'deploy'), ('lenet', 'lenet'),
    ('mobilenet_v1', 'deploy'), ('resnet50', 'deploy'), ('squeezenet', 'deploy'),
    ('vgg16', 'deploy'))}
DEFAULT_MODELS = [name for name in MODELS
                  if name not in ('caffenet_moe', 'cifar10_quick', 'lenet')]
TYPES = ('float', 'half', 'bfloat16', 'int16', 'int8')
PEERS = re.compile(r'torch(-all)?(-channels-last)?(-tf32)?(-graph|-compile)?|ort|openvino')
PEER_NAMES = ('torch[-all][-channels-last][-tf32][-graph or -compile], ort (ONNX Runtime) and '
              'openvino')
LEAST_ROUNDS = 3  # even if the time is over


def names(choices):
    def parse(text):
        chosen = text.split(',')
        for name in chosen:
            if name not in choices:
                raise argparse.ArgumentTypeError('%s is not one of %s' % (name, ', '.join(choices)))
        return chosen
    return parse


def numbers(text):
    try:
        found = [int(number) for number in text.split(',')]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise argparse.ArgumentTypeError('%s: positive integers are needed, such as 1,16' % text)
    return found


def sides(text):
    """(name, folder, device) of each side; a peer has no folder, most sides no device."""
    found = []
    for side in text.split(','):
        name, equals, folder = side.partition('=')
        if equals:
            folder, _, device = folder.partition('@')
            if not name or not folder:
                raise argparse.ArgumentTypeError('%s: write NAME=FOLDER or NAME=FOLDER@DEVICE' %
                                                 side)
            if PEERS.fullmatch(name):
                raise argparse.ArgumentTypeError('%s: a tree needs another name than a peer' % side)
            found.append((name, os.path.abspath(folder), device or None))
        elif PEERS.fullmatch(side):
            found.append((side, None, None))
        else:
            raise argparse.ArgumentTypeError(
                '%s is neither NAME=FOLDER nor a peer; peers are %s' % (side, PEER_NAMES))
    if found[0][1] is None:
        raise argparse.ArgumentTypeError('%s: the first side must be a tree, NAME=FOLDER' %
                                         found[0][0])
    if len({name for name, _, _ in found}) < len(found):
        raise argparse.ArgumentTypeError('%s: a name is given twice' % text)
    return found


def positive(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not value > 0:
        raise argparse.ArgumentTypeError('%s is not a positive number' % text)
    return value


def parse_arguments(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='cpu', help='cpu, cuda:0, opencl:0, … (default: cpu)')
    parser.add_argument('--peer-device', help="the peers' (default: the same; cuda:N for opencl:N)")
    parser.add_argument('--models', '--nets', type=names(MODELS), default=DEFAULT_MODELS,
                        help='comma-separated, of %s (default: all ImageNet models)'
                        % ', '.join(MODELS))
    parser.add_argument('--types', type=names(TYPES), default=['float'],
                        help='comma-separated, of %s (default: float)' % ', '.join(TYPES))
    parser.add_argument('--batches', type=numbers, default=[1], help='comma-separated (default: 1)')
    parser.add_argument('--pass', dest='work', choices=('forward', 'forward-backward', 'train'),
                        default='forward', help='forward: phase TEST; forward-backward: phase '
                        'TRAIN; train: forward, backward and update with a loss (default: '
                        'forward)')
    parser.add_argument('--sides', type=sides, default=[('cortado', ROOT, None)],
                        help='comma-separated: NAME=FOLDER or NAME=FOLDER@DEVICE for a built tree, '
                        'and %s; the first, a tree, is compared with each of the others (default: '
                        'this tree)' % PEER_NAMES)
    parser.add_argument('--recompute', default='', metavar='NAMES', help='comma-separated: trees '
                        'that train with `recompute: true` on the layers between the outputs of '
                        'blocks')
    parser.add_argument('--peer-python', default=sys.executable,
                        help='an interpreter with the packages of the peers')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--seconds', type=positive, default=1,
                        help='of one round, about (default: 1)')
    parser.add_argument('--minutes', type=positive,
                        help='no case starts later; rounds are left out then, but for %d (of a '
                        'preset: for each part)' % LEAST_ROUNDS)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--preset', choices=sorted(PRESETS), help='a list of measurements; replaces '
                        'models, types, batches and pass; h200: the nets with targets on an H200')
    parser.add_argument('--parts', help='comma-separated parts of the preset: %s (default: all)' % (
        '; '.join(', '.join(preset['parts']) for preset in PRESETS.values())))
    parser.add_argument('--output', help='a Markdown file to write')
    parser.add_argument('--json', help='a file for the times of all rounds')
    parser.add_argument('--from-json', metavar='FILES', help='comma-separated: writes one report '
                        'of earlier runs, measures nothing')
    parser.add_argument('--worker', help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.rounds < 1 or given.threads < 1:
        parser.error('--rounds and --threads must be positive')
    given.recompute = [name for name in given.recompute.split(',') if name]
    trees = [name for name, folder, _ in given.sides if folder]
    for name in given.recompute:
        if name not in trees:
            parser.error('--recompute: %s is not a tree; trees are %s' % (name, ', '.join(trees)))
    if given.parts and not given.preset:
        parser.error('--parts needs --preset')
    given.parts_of_run = parts(parser, given, sys.argv[1:] if arguments is None else arguments)
    return given


def parts(parser, given, words):
    """The measurements: those of the preset, or one of the arguments."""
    if not given.preset:
        return [dict(work=given.work, models=given.models, types=given.types,
                     batches=given.batches, targets={})]
    preset = PRESETS[given.preset]
    for option in ('device', 'rounds', 'seconds', 'minutes', 'sides'):
        if not any(word.split('=')[0] == '--' + option for word in words):
            value = preset[option]
            if option == 'sides':
                value = [(name, folder and ROOT, device) for name, folder, device in sides(value)]
            setattr(given, option, value)
    chosen = given.parts.split(',') if given.parts else list(preset['parts'])
    for name in chosen:
        if name not in preset['parts']:
            parser.error('--parts: %s is not one of %s' % (name, ', '.join(preset['parts'])))
    return [preset['parts'][name] for name in chosen]


# --- One process per side -------------------------------------------------------------------------

def work(task):
    """Prints facts as a line of JSON; then answers each number of passes by its seconds."""
    from peers import settings
    answers = settings.answer_file()
    try:
        if task['side'] == 'convert':
            from peers import ours
            settings.say(answers, ours.convert(task))
            return
        if task['folder']:
            from peers.ours import Ours
            side = Ours(task)
        else:
            from peers import graph, inference_peers
            loaded, arrays = graph.load(task['graph'])
            loaded = loaded.with_batch(task['batch'])
            if task['side'] in ('ort', 'openvino'):
                make = {'ort': inference_peers.OnnxRuntime, 'openvino': inference_peers.OpenVino}
                side = make[task['side']](task, loaded, arrays)
            else:
                from peers.torch_peer import Torch
                side = Torch(task, loaded, arrays)
    except settings.Skip as reason:
        settings.say(answers, dict(skipped=str(reason)))
        return
    settings.say(answers, side.facts)
    for line in sys.stdin:
        begin = time.perf_counter()
        side.step(int(line))
        settings.say(answers, time.perf_counter() - begin)


class EndedEarly(Exception):
    pass


class Side:
    """A worker process. `facts` is its first answer."""

    def __init__(self, python, task):
        self.name = task['name']
        environment = dict(os.environ, OMP_NUM_THREADS=str(task['threads']))
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), '--worker', json.dumps(task)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = self.answer()
        if 'skipped' in self.facts:
            self.close()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise EndedEarly('%s ended early, with status %d' % (self.name, self.process.wait()))
        return json.loads(line)

    def run(self, passes):
        """Milliseconds of a pass."""
        print(passes, file=self.process.stdin, flush=True)
        return 1e3 * self.answer() / passes

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def convert(model, scratch, given):
    """Weights and the graph of a model, written by the first tree, and its output in float."""
    task = dict(side='convert', name='conversion of ' + model, folder=given.sides[0][1],
                path=os.path.join(ROOT, MODELS[model]), threads=given.threads,
                graph=os.path.join(scratch, model + '.graph.npz'),
                weights=os.path.join(scratch, model + '.weights.npz'))
    side = Side(sys.executable, task)
    side.close()
    return dict(task, **side.facts)


def measure(case, converted, given, deadline):
    """Adds the sides to a case: times of the rounds, or why there are none."""
    started = []
    for name, folder, device in given.sides:
        peer_device = given.peer_device or given.device.replace('opencl', 'cuda')
        task = dict(side=name, name=name, folder=folder, work=case['work'], type=case['type'],
                    batch=case['batch'], threads=given.threads, path=converted['path'],
                    graph=converted['graph'], weights=converted['weights'],
                    dropout=converted['dropout'], recompute=name in given.recompute,
                    device=device or (given.device if folder else peer_device))
        try:
            side = Side(sys.executable if folder else given.peer_python, task)
        except EndedEarly as error:
            if folder:
                raise
            case['sides'][name] = dict(skipped=str(error), failed=True)
            print('%s, %s' % (case['model'], error), file=sys.stderr)
            continue
        case['sides'][name] = side.facts
        if 'skipped' in side.facts:
            print('%s, %s: %s is skipped: %s' % (case['model'], case['type'], name,
                                                side.facts['skipped']), file=sys.stderr)
        else:
            started.append(side)
    case['faults'] = reports.faults(case, converted['output'])
    for fault in case['faults']:
        print('%s, %s is not timed: %s' % (case['model'], case['type'], fault), file=sys.stderr)
    if not case['faults']:
        passes = [max(1, round(1e3 * given.seconds / side.run(2))) for side in started]
        for side in started:
            side.facts['milliseconds'] = []
        for done in range(given.rounds):
            if done >= LEAST_ROUNDS and time.monotonic() > deadline:
                break
            for side, count in zip(started, passes):
                side.run(1)  # starts its threads
                side.facts['milliseconds'].append(side.run(count))
    for side in started:
        side.close()
        del side.facts['output']


# --- The run --------------------------------------------------------------------------------------

def write_json(run, path):
    if path:
        with open(path, 'w') as file:
            json.dump(run, file, indent=1)
            file.write('\n')


def command_of(words):
    """The command of a report, without what is only true on this machine."""
    kept, skip = [], False
    for word in words:
        option = word.partition('=')[0]
        local = option in ('--output', '--json', '--peer-python')
        if not skip and not local:
            sides_follow = kept[-1:] == ['--sides']
            kept.append(re.sub(r'(?<!--sides)=[^,@]+', '=FOLDER', word)
                        if sides_follow or option == '--sides' else word)
        skip = local and '=' not in word
    return ' '.join(['nets.py', *kept])


def run_parts(given, cores):
    """Measures all parts; a file of --json is complete after every case."""
    now = datetime.datetime.now(datetime.timezone.utc)
    run = dict(command=command_of(sys.argv[1:]), date=now.strftime('%Y-%m-%d %H:%M'), commit=commit(), device=given.device,
               device_name=processor(), rounds=given.rounds, seconds=given.seconds, versions={},
               host='%s, %d threads on cores %s' % (processor(), given.threads,
                                                    ','.join(map(str, cores))), cases=[])
    with tempfile.TemporaryDirectory() as scratch:
        for part in given.parts_of_run:
            deadline = time.monotonic() + 60 * (given.minutes or 1e6)
            for model in part['models']:
                converted = None
                for type_name in part['types']:
                    for batch in part['batches']:
                        if time.monotonic() > deadline:
                            print('%s, %s, batch %d: the time is over' % (model, type_name, batch),
                                  file=sys.stderr)
                            continue
                        converted = converted or convert(model, scratch, given)
                        case = dict(work=part['work'], model=model, type=type_name, batch=batch,
                                    target=part['targets'].get((model, type_name, batch)), sides={})
                        measure(case, converted, given, deadline)
                        run['cases'].append(case)
                        for side in case['sides'].values():
                            run['versions'].update(side.pop('versions', {}))
                            name = side.pop('device', None)
                            if name and given.device != 'cpu':
                                run['device_name'] = name
                        print(reports.row(case, list(case['sides'])), file=sys.stderr)
                        write_json(run, given.json)
                if converted:
                    for file in ('graph', 'weights'):
                        os.remove(converted[file])
    return run


def main():
    given = parse_arguments()
    if given.worker:
        work(json.loads(given.worker))
        return
    if given.from_json:
        runs = []
        for path in given.from_json.split(','):
            with open(path) as file:
                runs.append(json.load(file))
        write_report(reports.report(runs), given.output)
        return
    cores = sorted(os.sched_getaffinity(0))
    if given.device == 'cpu':
        if len(cores) < given.threads:
            sys.exit('%d threads need as many cores, there are %d' % (given.threads, len(cores)))
        cores = cores[:given.threads]
        os.sched_setaffinity(0, cores)
    try:
        run = run_parts(given, cores)
    except EndedEarly as error:
        sys.exit(str(error))
    write_report(reports.report([run]), given.output)
    if any(case['faults'] or any('failed' in side for side in case['sides'].values())
           for case in run['cases']):
        sys.exit(1)


if __name__ == '__main__':
    main()
