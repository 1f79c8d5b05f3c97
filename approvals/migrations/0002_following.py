"""What the ORM cannot say: reviews follow their interactions, whoever closes or deletes those, and however."""

from django.db import migrations

# The engine closes interactions in statements of its own (an answer, a deadline, a cancelled tree): what the inbox's
# indexes carry is closed in the very same one. The condition costs other interactions one comparison. What is closed
# in its grace, by a cancellation, was never carried out: it is not decided. What nobody decided is told as "closed".
CLOSE = """
CREATE FUNCTION holdpoint_review_close() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO holdpoint_notice (id, review_id, at, kind)
  SELECT gen_random_uuid(), r.id, holdpoint_clock(), 'closed' FROM holdpoint_review r
  WHERE r.id = NEW.id AND r.open AND (r.outcome = '' OR r.effective_at IS NOT NULL);
  UPDATE holdpoint_review SET open = false, next_at = NULL, effective_at = NULL, held_deadline = NULL,
    outcome = CASE WHEN effective_at IS NULL THEN outcome ELSE '' END,
    decided_at = CASE WHEN effective_at IS NULL THEN decided_at END,
    decided_by_id = CASE WHEN effective_at IS NULL THEN decided_by_id END
  WHERE id = NEW.id AND open;
  UPDATE holdpoint_candidate SET open = false WHERE review_id = NEW.id AND open;
  RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_interaction_review AFTER UPDATE OF status ON holdpoint_interaction FOR EACH ROW
  WHEN (OLD.owned AND OLD.status = 1 AND NEW.status <> 1) EXECUTE FUNCTION holdpoint_review_close();
"""

# Retention deletes an instance with all that hangs on it.
FORGET = """
CREATE FUNCTION holdpoint_review_forget() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM holdpoint_candidate WHERE review_id = OLD.id;
  DELETE FROM holdpoint_vote WHERE review_id = OLD.id;
  DELETE FROM holdpoint_comment WHERE review_id = OLD.id;
  DELETE FROM holdpoint_snooze WHERE review_id = OLD.id;
  DELETE FROM holdpoint_notice WHERE review_id = OLD.id;
  DELETE FROM holdpoint_delivery WHERE review_id = OLD.id;
  DELETE FROM holdpoint_review WHERE id = OLD.id;
  RETURN NULL;
END $$;
CREATE TRIGGER holdpoint_interaction_forget AFTER DELETE ON holdpoint_interaction FOR EACH ROW
  WHEN (OLD.owned) EXECUTE FUNCTION holdpoint_review_forget();
"""


class Migration(migrations.Migration):
    dependencies = [("holdpoint_approvals", "0001_initial")]

    operations = [
        migrations.RunSQL(
            CLOSE,
            "DROP TRIGGER holdpoint_interaction_review ON holdpoint_interaction; DROP FUNCTION holdpoint_review_close();",
        ),
        migrations.RunSQL(
            FORGET,
            "DROP TRIGGER holdpoint_interaction_forget ON holdpoint_interaction; "
            "DROP FUNCTION holdpoint_review_forget();",
        ),
    ]
