-- What tokio-postgres's tests expect of the server: its repository's docker/sql_setup.sh, which its package lacks.
CREATE USER pass_user PASSWORD 'password';
SET password_encryption = md5;
CREATE USER md5_user PASSWORD 'password';
SET password_encryption = 'scram-sha-256';
CREATE USER scram_user PASSWORD 'password';
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
