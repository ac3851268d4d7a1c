// scale^-beta. If 4 beta is 1, 2, 3 or 4, `number` is that, otherwise 0: square roots take less
// time than POW, and compilers vectorise them.
DEVICE_FN Acctype lrn_power(Acctype scale, i32 number, Acctype beta) {
  if (number == 4) return REAL(1.0) / scale;
  if (number == 0) return POW(scale, -beta);
  const Acctype root = SQRT(scale);
  if (number == 2) return REAL(1.0) / root;
  const Acctype fourth = SQRT(root);
  return REAL(1.0) / (number == 1 ? fourth : root * fourth);
}
