# The only change of PostgreSQL's regress results before their comparison, for results and expected output alike: it
# removes the lines that psql prints below a table because Consort follows its database.
#
#   1. In a list of publications the publication of Consort goes: a line of four spaces and "consort" (in quotes). A line
#      "Publications:" with nothing left below it goes, too.
#   2. A line that is exactly "Replica Identity: FULL" goes.
#
# All else stays: a publication of a test's own, another replica identity, and every other line.

function keep(line) {
    if (heading != "" && line !~ /^    "/) heading = ""
    if (heading != "") { print heading; heading = "" }
    print line
}

/^Replica Identity: FULL$/ { next }
/^Publications:$/ { heading = $0; next }
/^    "consort[^"]*"$/ && (heading != "" || listing) { listing = 1; next }
{ listing = (heading != "" || listing) && /^    "/; keep($0) }
END { }
