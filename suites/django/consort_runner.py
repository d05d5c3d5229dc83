"""Django's runner, which besides writes a line for each test to the file DJANGO_RESULTS: its result, a tab, its name."""

import os
import unittest

from django.test.runner import DiscoverRunner


class Results(unittest.TextTestResult):
    """One line for each test. A test whose subtests fail, or whose tear-down does, has the worst of its results."""

    def startTestRun(self):
        super().startTestRun()
        self.lines = open(os.environ["DJANGO_RESULTS"], "a", buffering=1)

    def stopTestRun(self):
        self.lines.close()
        super().stopTestRun()

    def startTest(self, test):
        super().startTest(test)
        self.worst = None

    def stopTest(self, test):
        self.lines.write(f"{self.worst or 'pass'}\t{test.id()}\n")
        super().stopTest(test)

    def _note(self, test, result):
        self.worst = result
        # What is not a test is the set-up of a class or a module, which has no stopTest.
        if not isinstance(test, unittest.TestCase):
            self.lines.write(f"{result}\t{test.id()}\n")

    def addError(self, test, err):
        super().addError(test, err)
        self._note(test, "error")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._note(test, "fail")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._note(test, "fail")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._note(test, "skip")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._note(test, "unexpected success")


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Results
