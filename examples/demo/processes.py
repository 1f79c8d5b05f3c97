"""The processes of the shop, in one place: importing this module registers them."""

from examples.demo.access import grant_access as grant_access
from examples.demo.articles import ReviewArticle as ReviewArticle
from examples.demo.contracts import sign_contract as sign_contract
from examples.demo.deploys import DeployService as DeployService
from examples.demo.refunds import RefundOrder as RefundOrder
from examples.demo.refunds import RefundSmall as RefundSmall
from examples.demo.suppliers import AcceptSupplier as AcceptSupplier
from examples.demo.suppliers import ChangeBankAccount as ChangeBankAccount

#: What they are called, as lists and filters show it in words.
NAMES = (
    "order_refund",
    "small_refund",
    "bank_account_change",
    "new_supplier",
    "text_review",
    "deployment",
    "contract_signing",
    "access_request",
)
