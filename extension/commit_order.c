#include "consort.h"
void register_commit_order(void) {}
void order_commit(int64 version) {}
