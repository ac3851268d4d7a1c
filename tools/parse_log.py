#!/usr/bin/env python3
"""Tables from logs of `caffe train`: parse_log.py train.log FOLDER

Writes FOLDER/train.log.train and FOLDER/train.log.test, CSV files with the columns NumIters,
Seconds, LearningRate and one for each output of the net, as BVLC Caffe's script of this name does.
Seconds count from the first line of the solver. The second and later test nets have
files of their own: train.log.test1, train.log.test2, ...
"""
import argparse
import csv
import datetime
import os
import re
import sys

LINE = re.compile(r'[DIWE](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d+) +\d+ [^\]]+\] (.*)')
NUMBER = r'([-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan))'
ITERATION = re.compile(r'Iteration (\d{1,18})\b')
RATE = re.compile(r'Iteration (\d{1,18}), lr = ' + NUMBER)
TEST = re.compile(r'Iteration (\d{1,18}), Testing net \(#(\d{1,18})\)')
OUTPUT = re.compile(r' *(Train|Test) net output #(\d+): (\S+) = ' + NUMBER)


def printable(text):
    """The text without characters that a terminal would obey; a log may come from anywhere."""
    return ''.join(c if c.isprintable() else '\\x%02x' % ord(c) for c in text)


class Clock:
    """Seconds since the first time stamp. Lines have no year: a new one may begin."""

    def __init__(self):
        self.first = self.last = None
        self.years = datetime.timedelta()

    def __call__(self, month, day, hour, minute, second, fraction):
        # 2024 is a leap year.
        time = datetime.datetime(2024, month, day, hour, minute, second,
                                 int(fraction.ljust(6, '0')[:6])) + self.years
        if self.last and self.last - time > datetime.timedelta(days=180):
            self.years += datetime.timedelta(days=366)
            time += datetime.timedelta(days=366)
        self.last = time
        self.first = self.first or time
        return (time - self.first).total_seconds()


def parse(lines):
    """Rows of the train net, and of each test net by its number: lists of dictionaries."""
    train, tests, rates = [], {}, {}
    row, seconds, clock, started = None, 0.0, Clock(), False
    iteration = None
    for line in lines:
        match = LINE.match(line)
        if not match:
            continue
        *time, text = match.groups()
        started = started or text.startswith(('Solving ', 'Iteration '))
        if not started:
            continue
        try:
            seconds = clock(*map(int, time[:5]), time[5])
        except ValueError:
            continue  # a date that does not exist: the line is damaged
        if RATE.match(text):
            number, rate = RATE.match(text).groups()
            rates[int(number)] = float(rate)
        elif TEST.match(text):
            iteration, net = map(int, TEST.match(text).groups())
            row = dict(NumIters=iteration, Seconds=seconds)
            tests.setdefault(net, []).append(row)
        elif ITERATION.match(text):
            iteration = int(ITERATION.match(text).group(1))
            row = None
        elif OUTPUT.match(text):
            kind, number, name, value = OUTPUT.match(text).groups()
            if kind == 'Train' and (row is None or number == '0'):
                row = dict(NumIters=iteration, Seconds=seconds)
                train.append(row)
            if row is None:
                continue  # the log starts in the middle of a test
            # Blobs of several elements: name, name_1, name_2, ...
            column, count = name, 0
            while column in row:
                count += 1
                column = '%s_%d' % (name, count)
            row[column] = float(value)
    for rows in [train, *tests.values()]:
        add_rates(rows, rates)
    return train, tests


def add_rates(rows, rates):
    """The rate is logged after the outputs of its iteration, and not in every iteration of a test."""
    known = sorted(rates)
    for row in rows:
        before = [number for number in known if number <= row['NumIters']]
        number = before[-1] if before else known[0] if known else None
        row['LearningRate'] = rates[number] if number is not None else float('nan')


def columns(rows):
    names = ['NumIters', 'Seconds', 'LearningRate']
    for row in rows:
        names += [name for name in row if name not in names]
    return names


def write(path, rows, delimiter):
    try:
        with open(path, 'w', newline='', encoding='utf-8') as file:
            writer = csv.DictWriter(file, columns(rows), delimiter=delimiter, lineterminator='\n')
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:  # that of a full disk does not name the file
        raise OSError(error.errno, error.strerror, path) from None


def read(path):
    """parse() of a file; exits with an error if it is not a training log."""
    with open(path, encoding='utf-8', errors='replace') as file:
        train, tests = parse(file)
    if not train and not tests:
        sys.exit('%s: no line has "Train net output" or "Test net output"; a log of `caffe '
                 'train` (2>FILE, or -log_dir FOLDER) with display and CAFFE_LOG=info is expected'
                 % path)
    return train, tests


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0],
                                     epilog=__doc__.split('\n\n', 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('logfile_path', help='a log of caffe train, from standard error or log_dir')
    parser.add_argument('output_dir', help='folder for the tables')
    parser.add_argument('--verbose', action='store_true', help='name the files that are written')
    parser.add_argument('--delimiter', default=',', help='between columns (default: a comma)')
    arguments = parser.parse_args()
    try:
        train, tests = read(arguments.logfile_path)
        os.makedirs(arguments.output_dir, exist_ok=True)
        start = os.path.join(arguments.output_dir, os.path.basename(arguments.logfile_path))
        tables = {'.train': train, '.test': tests.get(0, [])}
        tables.update({'.test%d' % net: rows for net, rows in tests.items() if net > 0})
        for ending, rows in tables.items():
            write(start + ending, rows, arguments.delimiter)
            if arguments.verbose:
                print('wrote', printable(start + ending))
    except OSError as error:
        sys.exit('parse_log.py: %s' % error)


if __name__ == '__main__':
    main()
