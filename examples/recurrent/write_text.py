#!/usr/bin/env python3
"""write_text.py: an LSTM reads text letter by letter, and then writes its own.

The text consists of sentences of a small grammar (see Grammar). Each of the sequences in a batch is
a part of it, read on from one iteration to the next: the LSTM carries its state. A second net, of
one time step, shares the weights and writes. Prints what it writes, how much of it are words, and
how many sentences follow the grammar; then the same of the net in int8.
"""
import argparse
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, os.pardir, 'python'))  # unless it is installed

import caffe  # noqa: E402  (first: its error says how to install missing packages)
import numpy as np  # noqa: E402
from caffe import layers as L  # noqa: E402


class Grammar:
    """Sentences as "two small dogs see a red bird." The verb has the number of its subject, and
    the object has another noun."""

    adjectives = ['small', 'red', 'old', 'quiet', 'happy']
    nouns = ['dog', 'bird', 'robot', 'teacher', 'cloud']
    verbs = ['see', 'paint', 'follow', 'greet']
    several = ['two', 'many', 'all']

    def phrase(self, random, noun):
        """A noun with its words, and whether it is one."""
        one = random.rand() < 0.5
        words = [random.choice(self.adjectives)] if random.rand() < 0.5 else []
        words.append(noun if one else noun + 's')
        article = 'an' if words[0][0] in 'aeiou' else 'a'
        return [article if one else random.choice(self.several)] + words, one

    def sentence(self, random):
        subject, object_ = random.choice(self.nouns, size=2, replace=False)
        words, one = self.phrase(random, subject)
        words.append(random.choice(self.verbs) + ('s' if one else ''))
        return ' '.join(words + self.phrase(random, object_)[0]) + '.'

    def vocabulary(self):
        both = [word + end for word in self.nouns + self.verbs for end in ('', 's')]
        return set(self.adjectives + self.several + both + ['a', 'an'])

    def read_phrase(self, words):
        """The number of words of the phrase that comes first, its noun, and whether it is one."""
        if not words or words[0] not in ['a', 'an'] + self.several:
            return 0, '', False
        one = words[0] in ('a', 'an')
        at = 2 if len(words) > 1 and words[1] in self.adjectives else 1
        noun = words[at] if len(words) > at else ''
        if one and (words[1][:1] in tuple('aeiou')) != (words[0] == 'an'):
            return 0, '', False
        stem = noun if one else noun[:-1]
        known = stem in self.nouns and (one or noun.endswith('s'))
        return (at + 1 if known else 0), stem, one

    def accepts(self, sentence):
        words = sentence.strip().rstrip('.').split(' ')
        count, subject, one = self.read_phrase(words)
        if not count or len(words) <= count:
            return False
        verb = words[count]
        if verb not in [word + ('s' if one else '') for word in self.verbs]:
            return False
        rest, object_, _ = self.read_phrase(words[count + 1:])
        return rest > 0 and count + 1 + rest == len(words) and object_ != subject


def make_net(letters, steps, items, hidden, train):
    net = caffe.NetSpec()
    shapes = [dict(dim=[steps, items, letters]), dict(dim=[steps, items])]
    net.x, net.cont = L.Input(ntop=2, shape=shapes)
    net.lstm = L.LSTM(net.x, net.cont, recurrent_param=dict(
        num_output=hidden, weight_filler=dict(type='xavier')))
    net.scores = L.InnerProduct(net.lstm, num_output=letters, axis=2,
                                weight_filler=dict(type='xavier'))
    if train:
        net.target = L.Input(shape=[dict(dim=[steps, items])])
        net.loss = L.SoftmaxWithLoss(net.scores, net.target, softmax_param=dict(axis=2))
    else:
        net.chance = L.Softmax(net.scores, axis=2)
    return net.to_proto()


def in_int8(trained, batches, letters, args):
    """A net of one step with the weights of `trained` and products of int8, calibrated on the
    batches x [T, N, letters].
    """
    def net(steps, items):
        return make_net(len(letters), steps, items, args.hidden, False)

    cont = np.ones((args.steps, args.items))
    with tempfile.TemporaryDirectory() as folder:
        weights, out = os.path.join(folder, 'trained.caffemodel'), os.path.join(folder, 'int8')
        trained.save(weights)
        caffe.quantize((net(args.steps, args.items), weights),
                       [dict(x=x, cont=cont) for x in batches], type='int8', out=out)
        proto = net(1, 1)
        proto.data_type = caffe.proto.caffe_pb2.CAFFE_INT8_QUANTIZED
        return caffe.Net(proto, caffe.TEST, weights=out + '.caffemodel')


def write(net, letters, count, random, temperature):
    """Letters drawn one after the other; each is what the net reads next."""
    written, letter = [], letters.index(' ')
    for step in range(count):
        net.blobs['x'].data[...] = 0
        net.blobs['x'].data[0, 0, letter] = 1
        net.blobs['cont'].data[...] = step > 0
        net.forward()
        chance = net.blobs['chance'].data[0, 0].astype(float) ** (1 / temperature)
        letter = random.choice(len(letters), p=chance / chance.sum())
        written.append(letters[letter])
    return ''.join(written)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sentences', type=int, default=6000)
    parser.add_argument('--steps', type=int, default=32, help='through which gradients flow back')
    parser.add_argument('--items', type=int, default=32, help='sequences in a batch')
    parser.add_argument('--hidden', type=int, default=96)
    parser.add_argument('--iterations', type=int, default=800)
    parser.add_argument('--rate', type=float, default=0.01)
    parser.add_argument('--letters', type=int, default=2000, help='to write at the end')
    parser.add_argument('--temperature', type=float, default=0.5)
    parser.add_argument('--seed', type=int, default=1)
    args = parser.parse_args()

    random, grammar = np.random.RandomState(args.seed), Grammar()
    text = ' '.join(grammar.sentence(random) for _ in range(args.sentences))
    letters = sorted(set(text))
    codes = np.array([letters.index(letter) for letter in text])
    rows = codes[:len(codes) // args.items * args.items].reshape(args.items, -1).T
    one_hot = np.eye(len(letters))

    config = caffe.SolverParameter()
    config.net_param = make_net(len(letters), args.steps, args.items, args.hidden, True)
    config.type, config.base_lr, config.lr_policy = 'Adam', args.rate, 'step'
    config.stepsize, config.gamma = max(1, args.iterations // 4), 0.5
    config.momentum, config.momentum2, config.clip_gradients = 0.9, 0.999, 5.0
    config.random_seed = args.seed
    solver = caffe.get_solver(config)
    begin, at, losses = time.time(), 0, []
    for iteration in range(1, args.iterations + 1):
        if at + args.steps + 1 > len(rows):
            at = 0
        blobs = solver.net.blobs
        blobs['x'].data[...] = one_hot[rows[at:at + args.steps]]
        blobs['target'].data[...] = rows[at + 1:at + args.steps + 1]
        blobs['cont'].data[...] = 1
        blobs['cont'].data[0] = at > 0  # the text goes on where the last iteration ended
        losses.append(solver.step(1))
        at += args.steps
        if iteration % 100 == 0:
            print('%5d iterations, %3.0f s: %.3f bits per letter'
                  % (iteration, time.time() - begin, np.mean(losses[-50:]) / np.log(2)))

    writer = caffe.Net(make_net(len(letters), 1, 1, args.hidden, False), caffe.TEST)
    writer.share_with(solver.net)
    parts = [one_hot[rows[at:at + args.steps]] for at in range(0, 8 * args.steps, args.steps)]
    for name, net in ('float', writer), ('int8', in_int8(writer, parts, letters, args)):
        written = write(net, letters, args.letters, np.random.RandomState(args.seed),
                        args.temperature)
        sentences = written.split('. ')[:-1]
        words = [word for sentence in sentences for word in sentence.strip().split(' ')]
        print('\n' + '.\n'.join(sentences[:8]) + '.\n')
        if words:
            known = 100 * np.mean([word in grammar.vocabulary() for word in words])
            right = 100 * np.mean([grammar.accepts(one) for one in sentences])
            print('%s, %d letters: %.1f%% of %d words are known, %.1f%% of %d sentences follow the '
                  'grammar' % (name, args.letters, known, len(words), right, len(sentences)))
    return 0


if __name__ == '__main__':
    sys.exit(main())
