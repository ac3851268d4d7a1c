// The loss of a score v among scores whose greatest one is `top`, and the sum of whose
// exponentials, relative to it, is `sum`: at most -log(FLT_MIN).
DEVICE_FN Acctype softmax_loss_term(Acctype v, Acctype top, Acctype sum) {
  const Acctype loss = LOG(sum) - (v - top);
  const Acctype most = REAL(87.33654475055310);
  return loss > most ? most : loss;
}
